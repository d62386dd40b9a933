"""The first attempt at a program: runs of its baseline, as long as their outcome has a remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.errors import UsageError
from dsregress.model import Cell, Failed, Outcome, Passed, Result
from dsregress.probe.adapters import PROGRAM
from dsregress.probe.border.wire import RunRecord
from dsregress.probe.launch_line import LaunchLine
from dsregress.run import first_attempt, pipeline, program_stack, refusals
from dsregress.run.available_workloads import Program
from dsregress.run.cell_matrix import CellMatrix
from dsregress.run.first_attempt import TriedAttempt, remedied_attempt
from dsregress.run.pipeline import Choice
from dsregress.run.program_remedies import Attempt, Remedy
from dsregress.run.program_stack import CompletedChoice
from dsregress.run.releases_of_day import newest_of
from dsregress.versions.stack_plans import NEWEST_THAT_FITS, StackPlan
from tests.builders.cells import HARDWARE, RANK, cell, result_of, stack

MEASURED = RunRecord(outcome="passed", ranks=[RANK])

LACKS = Failed("import", "CannotRun: train.py lacks the module 'wandb': add --with wandb")
ROWS = Failed("import", "NotHere: train.py:5: the data set a/b is not on this machine: give --synthetic-data")
UNKNOWN = Failed("import", "CannotRun: train.py lacks the module 'x': add its package with --with PACKAGE")


class Runs:
    """A session and a watch. ``outcomes`` are those of the runs, in turn."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.ran: list[str] = []
        self.notes: list[str] = []
        self.partners: dict[str, str] = {}

    def measure(self, cells: Sequence[Cell], **how: Any) -> list[Result]:
        self.ran += [one.id for one in cells]
        return [
            result_of(msgspec.structs.replace(one, framework=PROGRAM), MEASURED, self.outcomes.pop(0)) for one in cells
        ]

    def note(self, line: str) -> None:
        self.notes.append(line)

    def plan(self, attempt: Attempt) -> pipeline.Planned:
        cells = (cell("0.15.0", "sim"), cell("0.16.4", "sim"))
        older, newer = (
            msgspec.structs.replace(one, versions={**one.versions, **self.partners})
            for one in (stack("0.15.0"), stack("0.16.4"))
        )
        stacks = StackPlan(stacks=(older, newer), baseline=older, axes=("deepspeed",))
        return pipeline.Planned(stacks=stacks, matrix=CellMatrix(cells=cells, skipped=()), hardware=HARDWARE)


def tried(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    folder: Path,
    named: tuple[str, ...] = (),
    others: Mapping[str, str] | None = None,
    said: tuple[str, ...] = (),
    choice: Choice | None = None,
) -> TriedAttempt:
    @contextlib.contextmanager
    def opened(*how: Any) -> Iterator[Runs]:
        yield runs

    monkeypatch.setattr(first_attempt, "open_session", opened)
    program = Program(line="python train.py", folder=str(folder))
    choice = choice or Choice()
    undated = tuple(name for name in named if choice.versions.get(name) == NEWEST_THAT_FITS)
    given = Attempt(program=program, choice=choice, fixed=named, undated=undated, others=others or {}, said=said)
    nothing: Any = None
    watch: Any = runs
    return remedied_attempt(given, runs.plan, Settings(environments=str(folder / ".dsregress")), nothing, watch)


def test_the_baseline_runs_until_it_passes_and_each_remedy_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = Runs(LACKS, ROWS, Passed())
    found = tried(monkeypatch, runs, tmp_path)
    assert found.attempt.choice.versions == {"wandb": ""}
    assert found.attempt.program.synthetic_data
    assert found.result is None
    assert set(runs.ran) == {cell("0.15.0", "sim").id}
    assert len(runs.ran) == 3
    given = Program(line="python train.py", folder=str(tmp_path))
    with_rows = msgspec.structs.replace(given, synthetic_data=True)
    assert runs.notes == [
        f"{given.name}: adds wandb, which it lacks when it runs",
        f"{with_rows.name}: train.py:5: the data set a/b is not on this machine: its rows are made up (--synthetic-data)",
    ]


def test_the_same_command_goes_on_from_where_it_came_to_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = Runs(LACKS, ROWS, Failed("init", "KeyError: 'x' (train.py:<module>)"))
    found = tried(monkeypatch, first, tmp_path)
    again = Runs(Passed())
    assert tried(monkeypatch, again, tmp_path).attempt == found.attempt
    assert len(again.ran) == 1
    assert again.notes == first.notes
    (tmp_path / "train.py").write_text("import datasets")
    anew = Runs(Passed())
    assert tried(monkeypatch, anew, tmp_path).attempt.choice.versions == {}
    assert anew.notes == []


@pytest.mark.parametrize(
    ("commit", "of"), [("", "deepspeed 0.16.4"), ("2026-11-28", "deepspeed 0.16.4"), ("2025-01-02", "its last commit")]
)
def test_a_program_that_fails_with_the_newest_packages_takes_those_of_its_commit_or_of_the_named_releases(
    commit: str, of: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    uploaded = {"0.15.0": "2024-08-22", "0.16.4": "2025-02-20", "5.0.1": "2026-07-28"}
    installer = SimpleNamespace(upload_day=lambda package, version: uploaded[version])
    monkeypatch.setattr(first_attempt, "day_of_last_commit", lambda *given: commit)
    monkeypatch.setattr(first_attempt, "newest_of", lambda named, _: newest_of(named, cast(Installer, installer)))
    monkeypatch.setattr(
        first_attempt, "releases_of_day", lambda day, packages, _: dict.fromkeys(packages, "4.49.0") if day else {}
    )
    monkeypatch.setattr(program_stack, "complete_choice", lambda choice, *rest: CompletedChoice(choice=choice))
    failed = Failed("init", "ImportError: cannot import name 'X' from 'transformers' (transformers/__init__.py)")
    runs = Runs(failed, Passed())
    runs.partners = {"transformers": "4.57.6", "datasets": "5.0.1"}
    monkeypatch.setattr(first_attempt, "_tried_first", lambda planned: planned.matrix.cells[:1])
    with_datasets = Choice(versions={"datasets": NEWEST_THAT_FITS})
    found = tried(monkeypatch, runs, tmp_path, named=("deepspeed", "datasets"), choice=with_datasets)
    assert found.attempt.choice.versions["transformers"] == "4.49.0"
    assert f"takes those of {of}, of " in runs.notes[0]


CALL = Failed(
    "init", "TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer' (train.py:<module>)"
)
NO_IMPORT = Failed("init", "ImportError: numpy.core.multiarray failed to import (matplotlib/transforms.py:<module>)")


@pytest.mark.parametrize(("newest", "taken"), [(CALL, None), (NO_IMPORT, "4.49.0")])
def test_releases_of_its_day_that_do_not_go_together_here_do_not_hide_how_it_fails_with_the_newest(
    newest: Failed, taken: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    day = first_attempt.OfItsDay("2023-09-07", {"transformers": "4.49.0"})
    monkeypatch.setattr(first_attempt, "_of_its_day", lambda *given, **more: day)

    def remedy(outcome: Outcome, attempt: Attempt, *rest: object) -> Remedy | None:
        if attempt.dated:
            return None
        choice = msgspec.structs.replace(attempt.choice, versions={"transformers": "4.49.0"})
        return Remedy(
            msgspec.structs.replace(attempt, choice=choice, dated=("transformers",)), "takes those of its day"
        )

    monkeypatch.setattr(first_attempt, "remedy_of", remedy)
    monkeypatch.setattr(program_stack, "complete_choice", lambda choice, *rest: CompletedChoice(choice=choice))
    runs = Runs(newest, NO_IMPORT)
    found = tried(monkeypatch, runs, tmp_path)
    assert found.attempt.choice.versions.get("transformers") == taken
    assert any("keeps the newest" in note for note in runs.notes) == (taken is None)


def test_no_further_remedy_is_tried_after_a_quarter_of_an_hour(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hours = iter((0.0, 0.2, 0.3))
    clock = SimpleNamespace(monotonic=lambda: 3600.0 * next(hours))
    monkeypatch.setattr(first_attempt, "time", clock)
    runs = Runs(LACKS, ROWS)
    found = tried(monkeypatch, runs, tmp_path)
    assert found.result is not None
    assert (found.result.outcome, found.attempt.choice.versions) == (ROWS, {"wandb": ""})
    assert "after 15 min no further remedy is tried: train.py:5: the data set a/b is not" in runs.notes[-1]


def test_packages_of_a_remedy_of_which_no_release_fits_are_left_out_or_the_remedy_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Resolved(Runs):
        def plan(self, attempt: Attempt) -> pipeline.Planned:
            for name in ("b-package", "wandb"):
                if name in attempt.choice.versions:
                    what = f"a-package, {name}: no release goes with the others: no solution: {name} needs scipy<1.12"
                    raise UsageError(what, where="--with")
            return super().plan(attempt)

    others = {"a-package": "", "b-package": ""}
    runs = Resolved(UNKNOWN, Passed())
    found = tried(monkeypatch, runs, tmp_path, others=others)
    assert (found.attempt.choice.versions, found.attempt.left_out) == ({"a-package": ""}, ("b-package",))
    assert "leaves out b-package, of which no release goes with the others: " in runs.notes[-1]

    runs = Resolved(LACKS)
    found = tried(monkeypatch, runs, tmp_path)
    assert found.result is not None
    assert (found.result.outcome, found.attempt.choice.versions) == (LACKS, {})
    assert "that cannot be had: a-package, wandb: no release goes with the others" in runs.notes[-1]


def test_another_remedy_is_tried_without_a_run_if_one_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Resolved(Runs):
        def plan(self, attempt: Attempt) -> pipeline.Planned:
            if "huggingface-hub" in attempt.choice.versions:
                raise UsageError("the releases given do not go together: no solution: huggingface-hub")
            return super().plan(attempt)

    monkeypatch.setattr(program_stack, "complete_choice", lambda choice, *rest: CompletedChoice(choice=choice))
    gone = "No module named 'huggingface_hub.utils._errors'"
    runs = Resolved(Failed("init", f"ModuleNotFoundError: {gone} (a.py:1)"), Passed())
    runs.partners = {"transformers": "4.57.6"}
    monkeypatch.setattr(first_attempt, "_tried_first", lambda planned: planned.matrix.cells[:1])
    monkeypatch.setattr(first_attempt, "day_of_last_commit", lambda *given: "2024-05-01")
    monkeypatch.setattr(first_attempt, "newest_of", lambda *given: ("", ""))
    monkeypatch.setattr(first_attempt, "releases_of_day", lambda day, packages, _: dict.fromkeys(packages, "4.40.1"))
    found = tried(monkeypatch, runs, tmp_path)
    assert found.attempt.choice.versions["transformers"] == "4.40.1"
    assert len(runs.ran) == 2
    said = [note.partition(": ")[2] for note in runs.notes]
    assert said[0] == f"fails with a newer one (ModuleNotFoundError: {gone}): takes huggingface-hub 0.24.7"
    assert said[1].startswith("that cannot be had: the releases given do not go together")
    assert "takes those of its last commit, of 2024-05-01: transformers 4.40.1" in said[2]


def test_what_a_longer_path_reaches_is_completed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def completed(choice: Choice, line: LaunchLine, *rest: Any) -> CompletedChoice:
        assert dict(line.variables) == {"PYTHONPATH": ".."}
        versions = {**choice.versions, "wandb": "0.18.3"}
        return CompletedChoice(choice=Choice(versions=versions), added=("wandb",), notes=("adds wandb 0.18.3",))

    monkeypatch.setattr(program_stack, "complete_choice", completed)
    lacks = "CannotRun: train.py imports 'own' of its project's ..: write PYTHONPATH=.. before the line"
    runs = Runs(Failed("import", lacks), Passed())
    found = tried(monkeypatch, runs, tmp_path)
    assert found.attempt.program.line == "PYTHONPATH=.. python train.py"
    assert found.attempt.choice.versions == {"wandb": "0.18.3"}
    assert found.attempt.added == ("wandb",)
    assert found.attempt.fixed == ()
    given = first_attempt.completed_attempt(
        msgspec.structs.replace(found.attempt, choice=Choice(versions={"wandb": "0.18.3", "peft": "0.9.0"})),
        *("sim", Settings(), cast(Installer, None), runs.note),
    )
    assert given.fixed == ("peft",)
    assert runs.notes[-1].endswith(": adds wandb 0.18.3")


def test_a_remedy_whose_packages_do_not_go_with_the_projects_leaves_the_answer_as_it_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*given: Any) -> CompletedChoice:
        raise UsageError("the releases given do not go together: no solution: accelerate", hint="leave one out")

    monkeypatch.setattr(program_stack, "complete_choice", refused)
    lacks = "CannotRun: train.py imports 'own' of its project's ..: write PYTHONPATH=.. before the line"
    runs = Runs(Failed("import", lacks))
    found = tried(monkeypatch, runs, tmp_path)
    assert found.attempt.program.line == "python train.py"
    assert found.result is not None
    assert found.result.outcome == Failed("import", lacks)
    assert runs.notes[-1].endswith("that cannot be had: the releases given do not go together: no solution: accelerate")


def test_what_another_transformers_does_not_bring_is_added_and_nothing_is_said_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def completed(choice: Choice, *rest: Any) -> CompletedChoice:
        notes = ("it uses no deepspeed", "adds rich 15.0.0")
        return CompletedChoice(choice=Choice(versions={**choice.versions, "rich": "15.0.0"}), notes=notes)

    monkeypatch.setattr(program_stack, "complete_choice", completed)
    monkeypatch.setattr(first_attempt, "day_of_last_commit", lambda *given: "2024-12-02")
    monkeypatch.setattr(first_attempt, "newest_of", lambda *given: ("", ""))
    monkeypatch.setattr(
        first_attempt, "releases_of_day", lambda day, packages, _: dict.fromkeys(packages, "4.46.3") if day else {}
    )
    failed = Failed("init", "ImportError: cannot import name 'X' from 'transformers' (transformers/__init__.py)")
    runs = Runs(failed, Passed())
    runs.partners = {"transformers": "4.57.6"}
    monkeypatch.setattr(first_attempt, "_tried_first", lambda planned: planned.matrix.cells[:1])
    found = tried(monkeypatch, runs, tmp_path, said=("it uses no deepspeed",))
    assert found.attempt.choice.versions["rich"] == "15.0.0"
    assert [note.partition(": ")[2] for note in runs.notes[1:]] == ["adds rich 15.0.0"]


def test_what_cannot_be_measured_here_is_not_run_once_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = Runs(UNKNOWN)
    found = tried(monkeypatch, runs, tmp_path)
    assert found.result is not None
    assert (found.result.outcome, runs.notes) == (UNKNOWN, [])


def test_what_a_program_lacks_is_not_run_with_the_other_releases(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runs = Runs(UNKNOWN)
    refused = tried(monkeypatch, runs, tmp_path).result
    planned = runs.plan(Attempt(program=Program(line="train.py", folder="."), choice=Choice())).matrix.cells
    watch: Any = runs
    assert refused is not None
    assert refusals.cells_to_compare(planned, refused, watch) == planned[:1]
    assert runs.notes[:1] == [
        f"{refused.cell.scenario}: the other releases are not run, as it lacks the same with each"
    ]
    failed = msgspec.structs.replace(refused, outcome=Failed("install", "no solution"))
    assert refusals.cells_to_compare(planned, failed, watch) == planned
    assert refusals.cells_to_compare(planned, None, watch) == planned


@pytest.mark.parametrize(
    ("place", "is_alike"),
    [
        ("'transformers' (transformers/__init__.py)", True),
        ("'transformers.models.qwen' (trans", True),
        ("'deepspeed' (deepspeed/__init__.py)", False),
        ("'tokenizers' (tokenizers/__init__.py)", False),
    ],
)
def test_a_name_that_all_stacks_lack_is_not_looked_for_with_the_other_releases(place: str, is_alike: bool) -> None:
    runs = Runs(Failed("init", f"ImportError: cannot import name 'New' from {place} (train.py:1)"))
    planned = tuple(
        msgspec.structs.replace(
            one, stack=msgspec.structs.replace(one.stack, versions={**one.stack.versions, "transformers": "4.49.0"})
        )
        for one in (cell("0.15.0", "sim"), cell("0.16.4", "sim"))
    )
    (failed,) = runs.measure(planned[:1])
    watch: Any = runs
    assert refusals.cells_to_compare(planned, failed, watch) == planned[: 1 if is_alike else 2]


SAME, OTHER = Failed("init", "ValueError: x (train.py:1)", "of one"), Failed("init", "ValueError: x (train.py:1)", "")


@pytest.mark.parametrize(
    ("first", "last", "ran"),
    [
        (SAME, OTHER, ["0.15.0", "0.16.8"]),
        (SAME, Failed("init", "ValueError: y (train.py:1)"), ["0.15.0", "0.16.4", "0.16.8"]),
        (SAME, Failed("backward", SAME.signature), ["0.15.0", "0.16.4", "0.16.8"]),
        (SAME, Passed(), ["0.15.0", "0.16.4", "0.16.8"]),
        (Passed(), Passed(), ["0.15.0", "0.16.4", "0.16.8"]),
        (Failed("install", "no"), Failed("install", "no"), ["0.15.0", "0.16.4", "0.16.8"]),
    ],
)
def test_what_fails_alike_with_the_first_and_the_last_release_is_not_run_with_those_between(
    first: Outcome, last: Outcome, ran: list[str]
) -> None:
    cells = tuple(cell(release, "sim") for release in ("0.15.0", "0.16.4", "0.16.8"))
    runs = Runs(first, last)
    watch: Any = runs
    left = refusals.cells_between(cells, runs.measure((cells[0], cells[-1])), watch)
    assert [one.stack.versions["deepspeed"] for one in left] == ran
    assert len(runs.notes) == (len(ran) == 2)


def test_releases_whose_steps_are_timed_run_together() -> None:
    assert refusals.are_many_simulations([cell(release, "sim") for release in ("0.15.0", "0.16.4", "0.16.8")])
    assert not refusals.are_many_simulations([cell(release, "cpu") for release in ("0.15.0", "0.16.4", "0.16.8")])
    assert not refusals.are_many_simulations([cell(release, "sim") for release in ("0.15.0", "0.16.8")])


def test_a_failure_of_a_release_is_compared_as_usual(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert tried(monkeypatch, Runs(Failed("step", "RuntimeError: x")), tmp_path).result is None


def test_remedies_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lacking = [Failed("import", f"CannotRun: train.py lacks 'x': add --with package{n}") for n in range(100)]
    runs = Runs(*lacking)
    tried(monkeypatch, runs, tmp_path)
    assert len(runs.ran) == len(runs.notes) == 8
