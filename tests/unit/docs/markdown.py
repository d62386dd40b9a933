"""The documentation as its readers see it: pages, headings, links, code, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.paths import ROOT

#: The documentation proper, each page of which is reached from the README.
DOCS = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(page for room in (".", "reproducers", "workloads") for page in (ROOT / "results" / room).glob("*.md")),
    ]
)

#: Those and the README beside the code of a package, or beside data; not those of programs, which may be others' checkouts.
PAGES = sorted(
    page
    for page in (
        *DOCS,
        *(page for room in ("harness", "scenarios", "results") for page in (ROOT / room).rglob("README.md")),
    )
    if not page.is_relative_to(ROOT / "scenarios" / "programs")
)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name(page: Path) -> str:
    """Its path in the repository, which is what a failing test should show."""
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """The text without its blocks of code."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def links(page: Path) -> list[str]:
    """Targets of the links and pictures."""
    return re.findall(r"\]\(([^()\s]+)\)", re.sub(r"`[^`\n]*`", "", prose(page)))


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number = 0
        while (anchor := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(anchor)
    return found


def code_spans(page: Path) -> list[str]:
    """What stands between single backticks."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def code_lines(page: Path) -> Iterator[str]:
    """Lines of the indented and the fenced blocks, but for Python; a line that goes on on the next is one."""
    text = re.sub(r"\\\n\s*", "", page.read_text(encoding="utf-8"))
    yield from (line.strip() for line in _FENCE.sub("", text).splitlines() if line.startswith("    "))
    for language, block in _FENCE.findall(text):
        if language != "python":
            yield from (line.strip() for line in block.splitlines())


def blocks(page: Path) -> list[str]:
    """The indented blocks."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in found]


def files(page: Path) -> dict[str, str]:
    """Whole files that a page shows, by the path that it gives them."""
    return dict(_FILE.findall(page.read_text(encoding="utf-8")))


def table(page: Path, first: str) -> list[dict[str, str]]:
    """Rows of the tables whose first column is called ``first``, cells without their backticks."""
    rows: list[dict[str, str]] = []
    header: list[str] = []
    for line in map(str.strip, page.read_text(encoding="utf-8").splitlines()):
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            header = []
        elif not header:
            header = cells
        elif header[0] == first and not set(line) <= set("|-: "):
            rows.append(dict(zip(header, cells, strict=True)))
    return rows
