"""A comparison on the terminal and in files, and the exit code that it means."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from dsregress import compare
from dsregress.cli.lines import print_note
from dsregress.cli.options import ReportFiles
from dsregress.cli.output import console, write_all, write_made
from dsregress.compare import Comparison
from dsregress.config.settings import Settings
from dsregress.report.comparison.exports import FORMATS
from dsregress.report.comparison.json import comparison_json_chunks, write_comparison_json
from dsregress.report.comparison.markdown import comparison_markdown
from dsregress.report.comparison.terminal import show_comparison
from dsregress.report.context import ReportContext, report_context
from dsregress.report.known_answers import NOTHING_KNOWN, known_answers
from dsregress.report.report_view import not_measured_text
from dsregress.store import explained_in
from dsregress.store.bulk import map_families

_FORMATS = {**FORMATS, "markdown": comparison_markdown}

#: Workloads whose pages are worth being drawn by another process: of a dozen releases each, they take a twentieth of a
#: second.
_WORKLOADS = 16


def write_reports(
    comparison: Comparison,
    settings: Settings,
    files: ReportFiles,
    *,
    folders: Sequence[str] = (),
) -> int:
    """Print the report and write the requested files; return the exit code. Raise ResultsError.

    ``folders`` have the results, unless they are in the configured one.
    """
    code = compare.exit_code(comparison, settings.fail_on)
    known = known_answers(settings.results, settings.reproducers, _note_unread) if files.html_folder else NOTHING_KNOWN
    context = report_context(comparison, settings.thresholds, known=known, exit_code=code)
    writing: list[Callable[[], None]] = []
    if files.json:
        writing.append(functools.partial(_write_json, context, files.json))
    named = [("markdown", files.markdown), *files.exports]
    for name, file in named:
        if file:
            text = functools.partial(_FORMATS[name], context)
            writing.append(functools.partial(write_made, file, text))
    if files.html_folder:
        stored = folders or (settings.results,)
        writing.append(functools.partial(_write_site, context, files.html_folder, stored))
    if files.is_shown and "-" not in (
        files.json,
        *(file for _, file in named),
    ):  # its reader wants that alone
        writing.append(lambda: show_comparison(context, console(), details=files.details, language=files.language))
    if line := not_measured_text(context):  # last, so that it is what a log ends with
        writing.append(functools.partial(print_note, f"not measured: {line}"))
    write_all(writing)
    return code


def _write_json(context: ReportContext, file: str) -> None:
    if file == "-":
        for chunk in comparison_json_chunks(context):
            click.echo(chunk, nl=False)
    else:
        write_comparison_json(context, Path(file))


def _write_site(context: ReportContext, folder: str, stored: Sequence[str]) -> None:
    # Its libraries take a third of a second to import, which other reports need not wait for.
    from dsregress.report.html import site

    built = site.build_site(
        context,
        Path(folder),
        spread=functools.partial(map_families, batch=_WORKLOADS),
        explained=explained_in(stored),
    )
    done = f"{built.written:,} of {built.pages:,} files written, {built.removed:,} removed"
    print_note(f"site: {Path(folder) / 'index.html'} ({done})")


def _note_unread(file: str, why: str) -> None:
    print_note(f"left out: {file}: {why}")
