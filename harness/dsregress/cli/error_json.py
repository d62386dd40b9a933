"""An error as JSON, in the place of the answer that a program asked for with ``--json``."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import click
import msgspec

from dsregress.errors import HarnessError
from dsregress.system.files import write_requested

SCHEMA = 1

_OPTION = "--json"


def write_error_json(words: Sequence[str], error: HarnessError | str, exit_code: int) -> None:
    """Write an error to the file of ``--json`` in a command line; nothing if it has none. ``error`` is a text if nothing
    more is known of it."""
    file = _requested(words)
    if not file:
        return
    fields = {"what": error.what, "where": error.where, "next": error.hint} if isinstance(error, HarnessError) else {}
    fields = fields or {"what": str(error), "where": "", "next": ""}
    data = msgspec.json.encode({"schema": SCHEMA, "error": {**fields, "exit_code": exit_code}}) + b"\n"
    if file == "-":
        click.echo(data, nl=False)
        return
    with contextlib.suppress(OSError):  # the error itself is on stderr, and matters more
        write_requested(file, data)


def _requested(words: Sequence[str]) -> str:
    """Return the file that a command line names for JSON; empty if none."""
    for word, after in zip(words, [*words[1:], ""], strict=False):
        if word == _OPTION:
            return after
        if word.startswith(f"{_OPTION}="):
            return word.partition("=")[2]
    return ""
