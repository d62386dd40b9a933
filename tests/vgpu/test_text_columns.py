"""Text in columns."""

from __future__ import annotations

from vgpu.text_columns import aligned_lines


def test_cells_are_aligned_by_column_and_lines_end_without_spaces() -> None:
    rows = [("phase", "bytes", "note"), ("init", "1,024", ""), ("backward", "7", "peak")]
    assert aligned_lines(rows, "<><") == ["phase     bytes  note", "init      1,024", "backward      7  peak"]
