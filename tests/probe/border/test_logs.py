"""A log that grows too long keeps its beginning and its end, while it is written."""

from __future__ import annotations

import os
from pathlib import Path

from dsregress.probe.border import logs


def test_a_log_that_has_grown_too_long_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    writing = logs.open_log(tmp_path / "rank-0.log")
    try:
        os.write(writing, b"first words\n" + b"x" * (2 * logs.LONGEST_BYTES) + b"\nlast words\n")
        logs.shorten_all(tmp_path)
        os.write(writing, b"later words\n")
    finally:
        os.close(writing)
    text = (tmp_path / "rank-0.log").read_bytes()
    assert text.startswith(b"first words\n")
    assert b"the log grew too long" in text
    assert text.endswith(b"last words\nlater words\n")
    assert len(text) < logs.LONGEST_BYTES


def test_a_short_log_a_link_and_a_pipe_are_left_alone(tmp_path: Path) -> None:
    short, elsewhere = tmp_path / "short.log", tmp_path / "elsewhere"
    short.write_text("all there is")
    elsewhere.write_bytes(bytes(2 * logs.LONGEST_BYTES))
    (tmp_path / "link.log").symlink_to(elsewhere)
    os.mkfifo(tmp_path / "pipe.log")
    logs.shorten_all(tmp_path)
    logs.shorten_all(tmp_path / "none")
    assert short.read_text() == "all there is"
    assert elsewhere.stat().st_size == 2 * logs.LONGEST_BYTES
