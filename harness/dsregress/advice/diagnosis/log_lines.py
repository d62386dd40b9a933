"""The lines of a log by the process that wrote them, without what launchers and loggers put before each. Pure."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

#: The line with which Python begins the report of an error.
TRACEBACK = "Traceback (most recent call last)"

#: Prefixes that launchers put before each line of a rank: torchrun, Ray, pytest, a debugger's log.
_KNOWN_PREFIX = re.compile(r"^\s*(\[rank\d+\]:|\(\w[\w.:]* pid=\d+[^)\n]{0,80}\)|\[\d+\]:|E  )\s?")
#: Of a terminal's colours; without the escape itself, as a page shows them that dropped it.
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\[\d{1,3}(?:;\d{1,3})*m")
_CLOCK = re.compile(r"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?")
_DIGITS = re.compile(r"\d+")
#: What stands before a traceback is a prefix only if it is no longer than this, in characters.
_LONGEST_PREFIX = 120
#: Prefixes that are looked for: each is tried on each line.
_MOST_PREFIXES = 16


def without_colours(text: str) -> str:
    """Return the text without the escapes of a terminal."""
    return _ESCAPES.sub("", text)


def lines_of_processes(text: str) -> list[list[str]]:
    """Return the lines of each process of a text without colours, by their prefixes: those of launchers, and whatever
    stands before a traceback's first line and, with other digits, before the lines that follow it."""
    lines = text.splitlines()
    prefixes = _prefixes_of_tracebacks(lines)
    processes: dict[str, list[str]] = {}
    for line in lines:
        match = next((found for prefix in prefixes if (found := prefix.match(line))), None) or _KNOWN_PREFIX.match(line)
        name = _CLOCK.sub("", match[0]).strip() if match else ""
        processes.setdefault(name, []).append(line[match.end() :] if match else line)
    return list(processes.values())


def _prefixes_of_tracebacks(lines: Sequence[str]) -> list[re.Pattern[str]]:
    """Return the patterns of what stands before the first line of tracebacks and the next one, the longest first."""
    found: Counter[str] = Counter()
    for line, following in itertools.pairwise(lines):
        prefix = line[: max(0, line.find(TRACEBACK))]
        pattern = _DIGITS.sub(r"\\d+", re.escape(prefix))
        if prefix.strip() and len(prefix) <= _LONGEST_PREFIX and re.match(pattern, following):
            found[pattern] += 1
    common = [pattern for pattern, _ in found.most_common(_MOST_PREFIXES)]
    return [re.compile(pattern) for pattern in sorted(common, key=len, reverse=True)]
