"""Answers on the terminal and in files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import click
from rich.console import Console

from dsregress.cli.lines import print_note, print_text
from dsregress.config.variables import display_environment
from dsregress.errors import EXIT_HARNESS, EXIT_OK, ResultsError
from dsregress.model import Outcome, is_measurement
from dsregress.system.files import write_requested
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import listing

_MOST_PROBLEMS = 20


def exit_code_of(outcomes: Iterable[tuple[str, Outcome]]) -> int:
    """Return 0, or 3 after a last line if the machine or the harness ended one of these cells, which are given by id."""
    missing = {cell: outcome for cell, outcome in outcomes if not is_measurement(outcome)}
    if not missing:
        return EXIT_OK
    why = dict.fromkeys(outcome_text(outcome) for outcome in missing.values())
    print_note(f"{listing(list(missing))}: {'; '.join(why)}; measure again")
    return EXIT_HARNESS


def write_all(writing: Sequence[Callable[[], None]]) -> None:
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
    writing = [functools.partial(write_made, file, content) for file, content in requested]
    if "-" not in (file for file, _ in requested):
        writing.append(functools.partial(_say_made, text))
    write_all(writing)


def write_made(file: str, content: Callable[[], bytes | str]) -> None:
    """Write the content that a function makes, as `write_file` does."""
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
