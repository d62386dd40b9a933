"""A comparison on the terminal and in files, and the exit code that it means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console

from harness import compare
from harness.collecting import collector_paused
from harness.compare import Comparison
from harness.config import Settings
from harness.errors import ResultsError
from harness.report import json_report, markdown, terminal
from harness.store import write_atomically

_T = TypeVar("_T")

_MOST_PROBLEMS = 20


def write_reports(
    comparison: Comparison, settings: Settings, *, json_file: str | None, markdown_file: str | None
) -> int:
    """Print the report and write the files that were asked for; returns the exit code. Raises ResultsError."""
    with collector_paused():
        return _write_reports(comparison, settings, json_file, markdown_file)


def _write_reports(comparison: Comparison, settings: Settings, json_file: str | None, markdown_file: str | None) -> int:
    code = compare.exit_code(comparison, settings.fail_on)
    if json_file == "-":
        for chunk in json_report.chunks(comparison, code):
            click.echo(chunk, nl=False)
    elif json_file:
        json_report.write(comparison, Path(json_file), code)
    if markdown_file == "-":
        click.echo(markdown.render(comparison))
    elif markdown_file:
        write_file(markdown_file, markdown.render(comparison).encode())
    if "-" not in (json_file, markdown_file):  # stdout belongs to whoever reads it
        terminal.show(comparison, Console(highlight=False))
    return code


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
    """An answer on the terminal, and in the files that were asked for (``-``: stdout, and nothing else there)."""
    for file, content in (json, markdown):
        if file is None:
            continue
        made = content(answer)
        write_file(file, made if isinstance(made, bytes) else made.encode())
    if "-" not in (json[0], markdown[0]):
        click.echo(text(answer), nl=False)


def write_file(file: str, data: bytes) -> None:
    """A file that a person asked for; ``-`` is stdout. Raises ResultsError."""
    if file == "-":
        click.echo(data, nl=False)
        return
    try:
        write_atomically(file, data)
    except OSError as error:
        raise ResultsError(f"cannot be written: {error.strerror}", where=file, hint="name a writable file") from None
