"""Text from measured environments (signatures, warnings, names) is hostile until it has passed through here."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

#: ECMA-48 control sequences, strings (of operating system commands and the like), and other escapes of two characters. An
#: unterminated string does not drop all the text after it. Nothing here is scanned twice.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)|\x1b[@-Z\\^_]|\x9b[0-?]*[ -/]*[@-~]"
)

#: Commands that CI systems obey in a log: GitHub Actions ``::error ...::`` at the beginning of a line, which wrapping may
#: cause, and ``##[error]`` anywhere (actions/runner, ActionCommand.cs and ActionCommandManager.cs); Azure Pipelines
#: ``##vso[``; TeamCity ``##teamcity[``.
_WORKFLOW_COMMAND = re.compile(
    r"::(?=(?:error|warning|notice|debug|group|endgroup|echo|stop-commands|(?:add|remove)-matcher|add-mask|add-path"
    r"|set-env|set-output|save-state|internal-set-repo-path)[\s:])|##(?=[\w-]*\[)",
    re.IGNORECASE,
)

_MARKDOWN = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    **{mark: f"&#{ord(mark)};" for mark in r"|`*[]~\#$!"},
    "@": "@\u200b",  # a mention would still be one after an entity is resolved
}
_TO_MARKDOWN = str.maketrans(_MARKDOWN)


def plain(text: str) -> str:
    """Return text as one printable line: without escape sequences, with spaces for line breaks, and with other control and
    bidirectional characters, and the beginnings of commands to a CI system, spelled out as ``\\x07``."""
    if text.isprintable() and not any(pair in text for pair in ("  ", "::", "##")):
        return text
    return _spelled_out(" ".join(_ESCAPES.sub("", text).split()))


def indented_plain(line: str) -> str:
    """Return a line made plain, with its indentation, which `plain` would drop."""
    text = line.lstrip(" ")
    return " " * (len(line) - len(text)) + plain(text)


def plain_lines(text: str) -> str:
    """Return a whole output as `plain` does, but with its line breaks and spaces, for text whose layout is ours."""
    return "\n".join(_spelled_out(_ESCAPES.sub("", line)) for line in text.split("\n"))


def _spelled_out(line: str) -> str:
    if not line.isprintable():
        line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line)
    return _WORKFLOW_COMMAND.sub(lambda found: f"{found[0][0]}\\x{ord(found[0][0]):x}", line)


def markdown(text: str) -> str:
    """Return `plain` text in which GitHub's Markdown finds nothing to act on: no markup, HTML, tables, links, mentions."""
    line = plain(text).translate(_TO_MARKDOWN).replace("://", "&#58;//").replace("www.", "www&#46;")
    line = line.replace(" -&gt; ", " -> ")  # within a line it quotes nothing, and comments are read as mails too
    return re.sub(r"(?<!\w)_|_(?!\w)", "&#95;", line)


def markdown_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[int] = ()
) -> list[str]:
    """Return the lines of a table in GitHub's Markdown. Columns at the positions in ``numbers`` are right-aligned. Rows are
    escaped; ``columns`` are not."""
    rule = ("---:" if at in numbers else "---" for at in range(len(columns)))
    lines = (columns, rule, *((markdown(field) for field in row) for row in rows))
    return [f"| {' | '.join(line)} |" for line in lines]


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table for a terminal. Columns are as wide as their content, and never cut."""
    table = [list(columns), *([plain(field) for field in row] for row in rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(columns))]
    return ["  ".join(field.ljust(width) for field, width in zip(row, widths, strict=True)).rstrip() for row in table]
