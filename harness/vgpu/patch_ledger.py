"""The ledger of what this process has replaced in packages: `vgpu.replacing.LEDGER` as a table.

As a program's last line, ``python -m vgpu.patch_ledger`` prints that of its rank.
"""

from __future__ import annotations

from vgpu.replacing import LEDGER
from vgpu.text_columns import aligned_lines

_HEADINGS = ("owner", "name", "since", "until", "here", "why")


def ledger_text() -> str:
    """Return a table: the owner and name of each target, the releases that have it, whether this one does, and why it is
    replaced."""
    rows = [
        (row.owner, row.name, row.since, row.until, "no" if row.is_gone else "", row.why)
        for _, row in sorted(LEDGER.items())
    ]
    return "\n".join(aligned_lines([_HEADINGS, *rows], "<" * len(_HEADINGS))) + "\n"


if __name__ == "__main__":
    print(ledger_text(), end="")  # noqa: T201
