"""The JSON of commands that list or do something, and judge nothing: one shape, by ``docs/schema/commands.schema.json``."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dsregress.cli.lines import print_text
from dsregress.cli.output import write_file

#: History: 1 first.
SCHEMA = 1


#: Prints text to stdout, or nothing.
Say = Callable[[str], None]


def text_beside(json_file: str | None) -> Say:
    """Return the function that prints text to stdout, unless that is where the JSON goes."""
    return _discard if json_file == "-" else print_text


def write_command_json(json_file: str | None, command: str, **fields: object) -> None:
    """Write the answer of a command, if JSON is requested. Raise ResultsError."""
    if json_file is None:
        return
    content = {"schema": SCHEMA, "command": command, **fields}
    write_file(json_file, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")


def _discard(text: str) -> None:
    pass
