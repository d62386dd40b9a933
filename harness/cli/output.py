"""A comparison on the terminal and in files, and the exit code that it means."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console

from harness import compare
from harness.cli.options import ReportFiles
from harness.compare import Comparison
from harness.config.settings import Settings
from harness.errors import ResultsError
from harness.report.comparison import json as json_report
from harness.report.comparison import markdown, terminal
from harness.report.comparison.exports import FORMATS
from harness.store import explained_in, write_atomically
from harness.store.bulk import in_order

_T = TypeVar("_T")

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
    """Print the report and write the requested files; returns the exit code. Raises ResultsError.

    ``folders`` hold the results, unless they are in the configured one.
    """
    code = compare.exit_code(comparison, settings.fail_on)
    written = (files.json, files.markdown, *(file for _, file in files.exports))
    if files.json == "-":
        for chunk in json_report.chunks(comparison, code):
            click.echo(chunk, nl=False)
    elif files.json:
        json_report.write(comparison, Path(files.json), code)
    if files.markdown:
        write_file(files.markdown, markdown.as_markdown(comparison).encode())
    for name, file in files.exports:
        write_file(file, FORMATS[name](comparison).encode())
    if files.html_folder:
        _write_site(comparison, settings, files.html_folder, code, folders or (settings.results,))
    if "-" not in written:  # whatever reads stdout wants that file alone
        terminal.show(comparison, Console(highlight=False))
    return code


def _write_site(comparison: Comparison, settings: Settings, folder: str, code: int, stored: Sequence[str]) -> None:
    # Its libraries take a third of a second to import, which other reports need not wait for.
    from harness.report.html import site

    built = site.build(
        comparison,
        Path(folder),
        settings.thresholds,
        exit_code=code,
        spread=functools.partial(in_order, batch=_WORKLOADS),
        explained=explained_in(stored),
    )
    done = f"{built.written:,} of {built.pages:,} files written, {built.removed:,} removed"
    click.echo(f"dsregress: site: {Path(folder) / 'index.html'} ({done})", err=True)


def note(line: str) -> None:
    """A line for the user, beside the output."""
    click.echo(f"dsregress: {line}", err=True)


def note_problems(problems: Iterable[str]) -> None:
    """Files that could not be read, one line each."""
    lines = list(problems)
    for line in lines[:_MOST_PROBLEMS]:
        click.echo(f"dsregress: left out: {line}", err=True)
    if len(lines) > _MOST_PROBLEMS:
        click.echo(f"dsregress: left out: {len(lines) - _MOST_PROBLEMS} more files", err=True)


def write_files(
    answer: _T,
    *,
    text: Callable[[_T], str],
    json: tuple[str | None, Callable[[_T], bytes]],
    markdown: tuple[str | None, Callable[[_T], str]],
) -> None:
    """Print an answer and write the requested files; with a file ``-`` stdout gets that file alone."""
    for file, content in (json, markdown):
        if file is None:
            continue
        made = content(answer)
        write_file(file, made if isinstance(made, bytes) else made.encode())
    if "-" not in (json[0], markdown[0]):
        click.echo(text(answer), nl=False)


def write_file(file: str, data: bytes) -> None:
    """Write a requested file; ``-`` is stdout. Raises ResultsError."""
    if file == "-":
        click.echo(data, nl=False)
        return
    try:
        write_atomically(file, data)
    except OSError as error:
        raise ResultsError(f"cannot be written: {error.strerror}", where=file, hint="name a writable file") from None
