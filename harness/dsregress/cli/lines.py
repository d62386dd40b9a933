"""Lines for a person, escaped so that a terminal and a CI system see only text."""

from __future__ import annotations

import click

from dsregress.report.plain_text import plain, plain_lines


def print_text(text: str, *, end: str = "\n") -> None:
    """Print lines to stdout."""
    click.echo(plain_lines(text) + end, nl=False)


def print_note(line: str) -> None:
    """Print a line for the user to stderr."""
    click.echo(f"dsregress: {plain(line)}", err=True)
