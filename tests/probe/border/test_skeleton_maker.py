"""How a skeleton's maker is started, and what its answers mean. What it makes: tests/skeletons."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsregress.probe.border import skeleton_maker
from dsregress.probe.border.skeleton_maker import MakerFailed
from skeletons.maker_answer import SkeletonFile, SkeletonRefused, answer_line


def answered(monkeypatch: pytest.MonkeyPatch, stdout: str, stderr: str = "") -> tuple[SkeletonFile, ...]:
    done = subprocess.CompletedProcess([], 0, stdout, stderr)
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: done)
    return skeleton_maker.make_skeleton("python", "gpt2", Path("out"), {}, tiny=False, contents=False)


def test_the_last_line_names_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    files = (SkeletonFile("config.json", 10, 512), SkeletonFile("model.safetensors", 1 << 40, 4096))
    line = answer_line({"files": files})
    assert answered(monkeypatch, f"transformers is loud\n{line}") == files


def test_a_refusal_is_what_the_maker_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SkeletonRefused, match="^no such model$"):
        answered(monkeypatch, answer_line({"error": "no such model"}))


@pytest.mark.parametrize("stdout", ["", "loud", "3", "{}", '{"files": 3}', '{"files": [{"name": "a"}]}'])
def test_anything_else_is_a_failure_with_the_last_line_of_stderr(monkeypatch: pytest.MonkeyPatch, stdout: str) -> None:
    with pytest.raises(MakerFailed, match="no skeleton could be made: MemoryError"):
        answered(monkeypatch, stdout, "Traceback\nMemoryError\n")
    with pytest.raises(MakerFailed, match="it was killed"):
        answered(monkeypatch, stdout)


def test_an_interpreter_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(MakerFailed, match="cannot be run: No such file or directory"):
        skeleton_maker.make_skeleton(str(tmp_path / "python"), "gpt2", tmp_path / "out", {}, tiny=False, contents=False)


def test_the_working_folder_is_not_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("dsregress", "json"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('the working folder was imported from')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SkeletonRefused, match="neither a file, a folder nor a known model"):
        skeleton_maker.make_skeleton(
            sys.executable, "no such model", tmp_path / "out", os.environ, tiny=False, contents=False
        )
