"""What people wait for is measured as they wait for it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.benchmarks import first_answer, watching
from tests.benchmarks.first_answer import Question


def asked(question: Question, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[list[str], list[float]]:
    """Return the versions that were asked, in order, and the medians of the figures."""
    order: list[str] = []

    def run(command: Sequence[str], environment: Mapping[str, str], folder: str) -> watching.Cost:
        order.append(Path(environment["PYTHONPATH"]).parent.name)
        seconds = 2.0 if order[-1] == "old" else 1.0
        return watching.Cost(wall_s=10 * len(order), cpu_s=seconds, peak_bytes=0, exit_code=0)

    program = tmp_path / "new" / "scenarios" / "programs" / "trainer_lora"
    program.mkdir(parents=True)
    monkeypatch.setattr(watching, "run", run)
    monkeypatch.setattr(first_answer, "_questions", lambda *_: iter([question]))
    figures = first_answer.run({}, tmp_path / "new", tmp_path / "old", ("1.0", "2.0"), 2)
    return order, [figure.value for figure in figures]


def test_two_versions_take_turns_and_the_first_turn_fills_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    warm = Question(what="warm", arguments=(), folder=tmp_path, goal_s=60)
    order, values = asked(warm, monkeypatch, tmp_path)
    assert order == ["new", "old"] * 3
    assert values == [40.0, 1.0, 50.0, 2.0, 0.5]  # times of the last two turns, and the ratio


def test_nothing_fills_the_caches_of_what_begins_with_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cold = Question(what="cold", arguments=(), folder=tmp_path, goal_s=60, is_cold=True)
    assert asked(cold, monkeypatch, tmp_path)[0] == ["new", "old"] * 2


def test_each_pull_request_changes_something_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "config.py"
    file.write_text("")
    asked(Question(what="change", arguments=(), folder=tmp_path, goal_s=60, changed=file), monkeypatch, tmp_path)
    lines = file.read_text().splitlines()
    assert len(lines) == len({*lines}) == 6


def test_a_pull_request_is_a_branch_beside_main(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    first_answer.as_branch(tmp_path, "a release")
    branches = subprocess.run(["git", "branch"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert branches.split() == ["*", "change", "main"]
