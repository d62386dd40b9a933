"""``skeleton``: what a person gets back where nothing can be made. What is made: tests/skeletons."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dsregress import cli
from dsregress.cli import skeleton
from dsregress.model import Environment, Stack


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """This interpreter, which has no transformers."""
    made = Environment(stack=Stack(python="3.11", versions={}), lock_sha256="", python=sys.executable)
    monkeypatch.setattr(skeleton, "_built_environment", lambda stacks: made)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        cli.run_command_line(["skeleton", *words])
    return int(ended.value.code or 0), capsys.readouterr().err


def test_a_folder_that_holds_something_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    code, line = run(capsys, "gpt2", "--out", str(tmp_path))
    assert code == 2
    assert line.endswith("already exists, and is not empty; name another folder\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "neither a file, a folder nor a known model; give its config.json, or a name such as"),
        ("{", "not JSON; give a config.json, or a folder with one"),
        ('{"model_type": "gpt2"}', "the environment has no transformers; name a stack that has it"),
    ],
)
def test_what_cannot_be_made_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str | None, words: str
) -> None:
    config = tmp_path / "config.json"
    if content is not None:
        config.write_text(content)
    code, line = run(capsys, str(config), "--out", str(tmp_path / "out"))
    assert code == 2
    assert words in line
    assert line.count("\n") == 1
    assert not (tmp_path / "out").exists()
