"""A comparison on the terminal and in files, and the exit code that it means."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click
from rich.console import Console

from dsregress import compare
from dsregress.cli.lines import print_note, print_text
from dsregress.cli.options import ReportFiles
from dsregress.compare import Comparison
from dsregress.config.settings import Settings
from dsregress.config.variables import display_environment
from dsregress.errors import EXIT_HARNESS, EXIT_OK, ResultsError
from dsregress.model import Outcome, is_measurement
from dsregress.report.comparison.exports import FORMATS
from dsregress.report.comparison.json import comparison_json_chunks, write_comparison_json
from dsregress.report.comparison.markdown import comparison_markdown
from dsregress.report.comparison.terminal import show_comparison
from dsregress.report.context import ReportContext, report_context
from dsregress.report.known_answers import NOTHING_KNOWN, known_answers
from dsregress.report.report_view import not_measured_text
from dsregress.store import explained_in
from dsregress.store.bulk import map_families
from dsregress.system.files import write_requested
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import listing

_FORMATS = {**FORMATS, "markdown": comparison_markdown}

_MOST_PROBLEMS = 20

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
            writing.append(functools.partial(_write_made, file, text))
    if files.html_folder:
        stored = folders or (settings.results,)
        writing.append(functools.partial(_write_site, context, files.html_folder, stored))
    if "-" not in (files.json, *(file for _, file in named)):  # whatever reads stdout wants that file alone
        writing.append(lambda: show_comparison(context, console(), details=files.details, language=files.language))
    if line := not_measured_text(context):  # last, so that it is what a log ends with
        writing.append(functools.partial(print_note, f"not measured: {line}"))
    _all_of(writing)
    return code


def exit_code_of(outcomes: Iterable[tuple[str, Outcome]]) -> int:
    """Return 0, or 3 after a last line if the machine or the harness ended one of these cells, which are given by id."""
    missing = {cell: outcome for cell, outcome in outcomes if not is_measurement(outcome)}
    if not missing:
        return EXIT_OK
    why = dict.fromkeys(outcome_text(outcome) for outcome in missing.values())
    print_note(f"{listing(list(missing))}: {'; '.join(why)}; measure again")
    return EXIT_HARNESS


def _all_of(writing: Sequence[Callable[[], None]]) -> None:
    """Write all files, even if one of them cannot be written. Raise ResultsError for the first that cannot."""
    failed: list[ResultsError] = []
    for write in writing:
        try:
            write()
        except ResultsError as error:
            failed.append(error)
    for other in failed[1:]:
        print_note(f"error: {other}")
    if failed:
        raise failed[0]


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


def console(*, stderr: bool = False) -> Console:
    """Return the console for tables. Print only Text or `plain` text on it: markup is not interpreted."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, _environ=display_environment())


def note_problems(problems: Iterable[str]) -> None:
    """Report the files that could not be read, one line each."""
    lines = list(problems)
    for line in lines[:_MOST_PROBLEMS]:
        print_note(f"left out: {line}")
    if len(lines) > _MOST_PROBLEMS:
        print_note(f"left out: {len(lines) - _MOST_PROBLEMS} more files")


def write_answer(text: Callable[[], str], *files: tuple[str | None, Callable[[], bytes | str]]) -> None:
    """Print an answer and write the requested files, each with the function that makes its content; if a file is ``-``,
    stdout gets that file alone. Raise ResultsError."""
    requested = [(file, content) for file, content in files if file is not None]
    writing = [functools.partial(_write_made, file, content) for file, content in requested]
    if "-" not in (file for file, _ in requested):
        writing.append(functools.partial(_say_made, text))
    _all_of(writing)


def _write_made(file: str, content: Callable[[], bytes | str]) -> None:
    made = content()
    write_file(file, made if isinstance(made, bytes) else made.encode())


def _say_made(text: Callable[[], str]) -> None:
    print_text(text(), end="")


def write_file(file: str, data: bytes) -> None:
    """Write a requested file; ``-`` is stdout. Raise ResultsError."""
    if file == "-":
        click.echo(data, nl=False)
        return
    try:
        write_requested(file, data)
    except OSError as error:
        raise ResultsError(f"cannot be written: {error.strerror}", where=file, hint="choose a writable file") from None
