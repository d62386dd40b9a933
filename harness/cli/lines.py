"""Lines for a person. Whatever they hold, a terminal and a CI system see text."""

from __future__ import annotations

import click

from harness.report.plain import plain, plain_lines


def say(text: str, *, end: str = "\n") -> None:
    """Lines for stdout."""
    click.echo(plain_lines(text) + end, nl=False)


def note(line: str) -> None:
    """A line for the user, beside the output."""
    click.echo(f"dsregress: {plain(line)}", err=True)
