"""Explanations on disk."""

from __future__ import annotations

from pathlib import Path

from dsregress.probe.border.wire import Explanation, Held, Moment
from dsregress.store import Explanations, Store

TOLD = Explanation({"step.device_peak_bytes": Moment(0, 8, [Held(8, 1, "other", "", "a.py:1 in f", [], "step")])})
KEY = "0123456789abcdef" * 4


def test_an_explanation_comes_back_as_it_was(tmp_path: Path) -> None:
    kept = Explanations(str(tmp_path))
    kept.write(KEY, "a/b/c/d", TOLD)
    assert kept.read(KEY) == TOLD


def test_another_content_has_no_explanation(tmp_path: Path) -> None:
    kept = Explanations(str(tmp_path))
    kept.write(KEY, "a/b/c/d", TOLD)
    assert kept.read("f" * 64) is None
    assert kept.read(KEY[:16] + "0" * 48) is None  # the same file's name is not the same content


def test_a_damaged_one_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    kept = Explanations(str(tmp_path))
    kept.write(KEY, "a/b/c/d", TOLD)
    (file,) = (tmp_path / "details").iterdir()
    file.write_bytes(file.read_bytes()[:20])
    assert kept.read(KEY) is None


def test_explanations_are_no_results(tmp_path: Path) -> None:
    Explanations(str(tmp_path)).write(KEY, "a/b/c/d", TOLD)
    loaded = Store(str(tmp_path)).load()
    assert loaded.results == ()
    assert loaded.problems == ()
