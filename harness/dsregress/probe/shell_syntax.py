"""Finds the parts of a launch line that only a shell would carry out. Standard library only.

``shlex`` removes quotes as a shell does, and passes everything else on as text: ``> log`` and ``$(nproc)`` would become
arguments of the program.
"""

from __future__ import annotations

import re

#: Outside of quotes.
_BARE = re.compile(r"(?P<fills>\$\(|`|\$\{?\w+\}?)|(?P<runs>2>&1|&&|\|\||>>|<<|[|&;<>])")

#: Between double quotes, where a shell still expands.
_DOUBLE = re.compile(r"\$\(|`|\$\{?\w+\}?")

#: The continuation of a line: a backslash directly before the end of its line.
_CONTINUED = re.compile(r"\s*\\\r?\n\s*")


def joined(line: str) -> str:
    """Return a line that backslashes continue as one line."""
    return _CONTINUED.sub(" ", line).strip()


def first_of_a_shell(line: str) -> str:
    """Return the first part of ``line`` that a shell would carry out or fill in: ``|``, ``$(``, ``$HOME``; empty without
    one. Text between single quotes, or behind a backslash, does not count."""
    at, quote = 0, ""
    while at < len(line):
        letter = line[at]
        if quote == "'":
            quote = "" if letter == "'" else quote
        elif letter == "\\":
            at += 1
        elif letter == '"':
            quote = "" if quote else '"'
        elif letter == "'" and not quote:
            quote = "'"
        elif found := (_DOUBLE if quote else _BARE).match(line, at):
            return found[0]
        at += 1
    return ""
