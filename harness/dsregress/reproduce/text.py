"""The text of a script: values as Python, blocks within blocks, and the empty lines that a reader expects. Pure."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence

#: Columns of a JSON value, next to a short name.
_WIDTH = 110


def literal(value: object, margin: str = "") -> str:
    """Return a JSON value as Python: on one line if that is short, else as many entries to a line as are short together."""
    if not isinstance(value, Mapping):
        return json.dumps(value) if isinstance(value, str) else repr(value)
    entries = [f"{json.dumps(name)}: {literal(member, margin + '    ')}" for name, member in value.items()]
    line = "{" + ", ".join(entries) + "}"
    if len(margin) + len(line) <= _WIDTH and "\n" not in line:
        return line
    lines = [""]
    for entry in entries:
        together = f"{lines[-1]} {entry},".lstrip()
        if lines[-1] and ("\n" in together or len(margin) + len(together) > _WIDTH):
            lines.append(f"{entry},")
        else:
            lines[-1] = together
    return "{\n" + "".join(f"{margin}    {line}\n" for line in lines) + margin + "}"


def packed(value: Mapping[str, object]) -> str:
    """Return a JSON object as Python, as many entries to a line as fit: for one that needs no reading."""
    entries = [f"{json.dumps(name)}: {literal(member)}," for name, member in value.items()]
    lines = textwrap.wrap(" ".join(entries), _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "{\n" + "".join(f"    {line}\n" for line in lines) + "}"


def within(text: str, heads: Sequence[str]) -> str:
    """Return a block nested in the blocks that the heads open, the outermost first."""
    margins = ["    " * depth for depth in range(len(heads) + 1)]
    opened = [margin + head for margin, head in zip(margins, heads, strict=False)]
    return "\n".join([*opened, textwrap.indent(text.strip("\n"), margins[-1]), ""])


def tidy(text: str) -> str:
    """Return the script with the empty lines that a reader expects, whatever absent fragments leave: two around each
    definition, one before every method but the first, and one behind imports if there was any."""
    found: list[str] = []
    defines = has_gap = False
    for line in map(str.rstrip, text.splitlines()):
        if not line:
            has_gap = True
            continue
        last, is_definition = found[-1] if found else "", line.startswith(("class ", "def "))
        if is_definition or (defines and not line.startswith(" ")):
            found += ["", ""]
        elif (line.startswith("    def ") and not last.startswith("class ")) or (
            has_gap and last.startswith(("import ", "from "))
        ):
            found.append("")
        found.append(line)
        defines = is_definition or (defines and line.startswith(" "))
        has_gap = False
    return "\n".join(found) + "\n"
