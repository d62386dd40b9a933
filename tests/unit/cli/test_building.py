"""Commands that need an interpreter alone read no scenario, so one that is broken is not in their way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dsregress import cli
from dsregress.model import Environment, LockedStack, Stack
from dsregress.probe.border import skeleton_maker
from dsregress.run import targets
from dsregress.versions import locking

PYPROJECT = """
[tool.dsregress]
baseline = "0.15.0"
[tool.dsregress.stack]
torch = "2.13.0"
deepspeed = ["0.15.0", "0.16.4"]
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a broken scenario; every environment has this interpreter, and nothing is installed."""

    def lock(stack: Stack, **_: object) -> LockedStack:
        return LockedStack(stack=stack, requirements=(), sha256="")

    def build(locked: list[LockedStack], progress: targets.BuildProgress) -> tuple[Environment, ...]:
        return tuple(Environment(stack=one.stack, lock_sha256="", python=sys.executable) for one in locked)

    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "broken.py").write_text("import there_is_no_such_module\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(locking, "lock_stack", lock)
    monkeypatch.setattr(targets, "venv_build", lambda *_, **__: build)


def run(*words: str) -> object:
    with pytest.raises(SystemExit) as ended:
        cli.run_command_line(words)
    return ended.value.code


def test_env_prints_the_interpreter(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("env", "0.16.4") == 0
    assert capsys.readouterr().out == f"{sys.executable}\n"


def test_skeleton_runs_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    pythons: list[str] = []

    def made(python: str, *_: object, **__: object) -> list[object]:
        pythons.append(python)
        return []

    monkeypatch.setattr(skeleton_maker, "make_skeleton", made)
    assert run("skeleton", "gpt2", "--out", "made") == 0
    assert pythons == [sys.executable]
