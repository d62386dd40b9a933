"""Text from measured environments (signatures, warnings, names) is hostile until it has passed through here."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: ECMA-48 control sequences, operating system commands, and other escapes of two characters.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)|\x1b[@-Z\\^_]|\x9b[0-?]*[ -/]*[@-~]", re.DOTALL
)

_MARKDOWN = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "|": "&#124;",
    "`": "&#96;",
    "*": "&#42;",
    "[": "&#91;",
    "]": "&#93;",
    "~": "&#126;",
    "\\": "&#92;",
    "#": "&#35;",
    "$": "&#36;",
    "!": "&#33;",
    "@": "@\u200b",  # a mention would still be one after an entity is resolved
}
_TO_MARKDOWN = str.maketrans(_MARKDOWN)


def plain(text: str) -> str:
    """One printable line: escape sequences dropped, line breaks made spaces, other control and bidirectional characters
    spelled out as ``\\x07``."""
    if text.isprintable() and "  " not in text:
        return text
    without = _ESCAPES.sub("", text)
    line = " ".join(without.split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line)


def markdown(text: str) -> str:
    """`plain`, with everything inert that GitHub's Markdown would act on: markup, HTML, tables, links, mentions."""
    line = plain(text).translate(_TO_MARKDOWN).replace("://", "&#58;//").replace("www.", "www&#46;")
    return re.sub(r"(?<!\w)_|_(?!\w)", "&#95;", line)


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table for a terminal: columns as wide as they must be, and never cut."""
    table = [list(columns), *([plain(field) for field in row] for row in rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(columns))]
    return ["  ".join(field.ljust(width) for field, width in zip(row, widths, strict=True)).rstrip() for row in table]
