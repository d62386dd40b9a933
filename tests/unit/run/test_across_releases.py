"""The second line runs with each release on the files of each release that wrote some."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dsregress.config.settings import Settings
from dsregress.errors import NothingMeasured
from dsregress.model import Failed, Stack
from dsregress.run import across_releases, available_workloads, pipeline
from dsregress.run.available_workloads import Program
from dsregress.run.cell_matrix import Selection
from dsregress.versions.stack_plans import StackPlan

STACKS = tuple(Stack(python="3.11", versions={"transformers": version}) for version in ("4.57.6", "5.24.0"))


class Runs:
    """Stands in for the pipeline: the first run writes files with some of the stacks."""

    def __init__(self, settings: Settings, writing: tuple[Stack, ...]) -> None:
        self.settings, self.writing = settings, writing
        self.choices: list[pipeline.Choice] = []
        self.notes: list[str] = []
        self.inference: list[int] = []  #: programs that are known to train nothing, at each run
        self.outcomes: tuple[Failed, ...] = ()  #: of the runs of a second line, by stack

    def plan_run(self, settings: Settings, choice: pipeline.Choice, installer: object) -> Any:
        stacks = StackPlan(stacks=STACKS, baseline=STACKS[0], axes=("transformers",))
        return type("Planned", (), {"stacks": stacks})

    def regress(self, settings: Settings, choice: pipeline.Choice, *others: object) -> Any:
        self.choices.append(choice)
        chosen = available_workloads.load_scenarios(self.settings, choice.selection.scenarios)
        self.inference.append(sum(bool(one.parameters.get("inference")) for one in chosen.values()))
        (launch,) = (one for one in available_workloads.launches(self.settings).values() if one.kept)
        for stack in self.writing:
            (Path(launch.kept) / stack.id / "out").mkdir(parents=True, exist_ok=True)
        second = [f"{name}/base/cpu" for name in choice.selection.scenarios[1:]]
        ended = {one: dict(zip((stack.id for stack in STACKS), self.outcomes, strict=False)) for one in second}
        cells = SimpleNamespace(workloads=second, stacks_of=lambda workload: [stack.id for stack in STACKS])
        return SimpleNamespace(cells=cells, ended=ended)

    def note(self, line: str) -> None:
        self.notes.append(line)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "scenarios").mkdir()
    return Settings(scenarios=str(tmp_path / "scenarios"), environments=str(tmp_path / "environments"))


def across(
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *writing: Stack,
    outcomes: tuple[Failed, ...] = (),
) -> Runs:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").write_text("print('trains')\n")
    first = Program(line="python train.py", folder=str(tmp_path / "mine"), steps=2)
    runs: Any = Runs(settings, writing)
    runs.outcomes = outcomes
    monkeypatch.setattr(pipeline, "plan_run", runs.plan_run)
    monkeypatch.setattr(pipeline, "regress", runs.regress)
    choice = pipeline.Choice(selection=Selection(devices=("cpu",)))
    across_releases.regress_across(settings, choice, first, "python train.py --resume", runs, runs)
    return runs


def test_there_is_a_workload_for_each_release_that_wrote(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = across(settings, tmp_path, monkeypatch, *STACKS)
    assert [choice.fresh for choice in runs.choices] == [True, False]
    names = runs.choices[1].selection.scenarios
    launches = available_workloads.launches(settings)
    assert [launches[name].line for name in names] == [
        "python train.py",
        "CHECKPOINT_OF=transformers-4.57.6 python train.py --resume",
        "CHECKPOINT_OF=transformers-5.24.0 python train.py --resume",
    ]
    assert [Path(launches[name].found).name for name in names[1:]] == [stack.id for stack in STACKS]
    scenarios = available_workloads.load_scenarios(settings, names)
    assert [scenarios[name].parameters["warmup_steps"] for name in names] == [2, 2, 2]
    assert runs.notes == []


def test_a_release_that_wrote_nothing_is_named(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = across(settings, tmp_path, monkeypatch, STACKS[0])
    assert len(runs.choices[1].selection.scenarios) == 2
    assert runs.notes == ["nothing goes on from 5.24.0: no file was written by the end of the measured step"]


UNTRAINED = "ProgramError: it ended without an optimizer step: one that only scores is measured with --inference"


NOT_LOADED = Failed("load", "ValueError: no", "ValueError: no")
SCORES = Failed("init", UNTRAINED, UNTRAINED)


@pytest.mark.parametrize("outcomes", [(SCORES, SCORES), (SCORES, NOT_LOADED)])
def test_a_second_line_that_trains_nothing_is_measured_as_one_that_scores(
    outcomes: tuple[Failed, ...], settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = across(settings, tmp_path, monkeypatch, *STACKS, outcomes=outcomes)
    assert runs.inference == [0, 0, 2]  # of both releases that wrote
    assert runs.notes == ["the second line trains nothing: what it loads, scores and saves is measured until it ends"]


@pytest.mark.parametrize("outcomes", [(NOT_LOADED, NOT_LOADED), (SCORES,), ()])
def test_a_second_line_that_fails_otherwise_or_trains_with_a_release_runs_once(
    outcomes: tuple[Failed, ...], settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(across(settings, tmp_path, monkeypatch, *STACKS, outcomes=outcomes).choices) == 2


def test_without_any_file_nothing_goes_on(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NothingMeasured) as refused:
        across(settings, tmp_path, monkeypatch)
    assert str(refused.value) == (
        "--program: writes no file in its folder; let it save by then (--save_steps 1), in its own folder, or raise --steps"
    )


def test_files_of_a_later_run_are_another_workload(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").write_text("print('trains')\n")
    (tmp_path / "kept").mkdir()
    one = Program(line="python train.py", folder=str(tmp_path / "mine"), found=str(tmp_path / "kept"))
    available_workloads._scenario.cache_clear()
    before = available_workloads._scenario(one).parameters["sources_sha256"]
    (tmp_path / "kept" / "state.pt").write_text("later")
    available_workloads._scenario.cache_clear()
    assert available_workloads._scenario(one).parameters["sources_sha256"] != before
