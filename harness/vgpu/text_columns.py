"""Aligns rows of text in columns. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence


def aligned_lines(rows: Sequence[Sequence[str]], alignment: str) -> list[str]:
    """Return a line for each row. ``alignment`` has a character for each column: ``<`` for left, ``>`` for right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, alignment, widths)).rstrip() for row in rows
    ]
