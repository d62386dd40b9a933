"""The search for what tells two releases apart, on releases that are made up: every run takes a second."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from dsregress.config.settings import Settings
from dsregress.explore import exploring, space
from dsregress.explore.exploring import Explored, ExploreQuery, explore
from dsregress.explore.follow_up import Change, Confirmation, Followed, changed_in
from dsregress.model import Cell, Failed, MachineFault, Result, Stack, Verdict
from dsregress.probe import scenario
from dsregress.probe.border.wire import Numerics, RankRecord, RunRecord
from dsregress.report.answers import explore_answer as report
from dsregress.reproduce.factors import SIMPLEST
from dsregress.run.session import Session
from tests.builders.cells import result_of, stack
from tests.paths import ROOT
from vgpu.figures import PhaseReading

MINIMAL = scenario.load(ROOT / "scenarios" / f"{SIMPLEST}.py")

Parameters = Mapping[str, Any]

#: What there is to try of a few factors is tried in no time.
FEW = {
    *("zero_stage", "world_size", "gradient_accumulation_steps", "model_outputs", "dtype", "objective", "evaluate"),
    *("offload_optimizer", "checkpoint", "no_sync", "gradient_checkpointing", "overlap_comm"),
}


def quarter(version: str, p: Parameters) -> bool:
    """Needs three values, of the newer release."""
    several = p["zero_stage"] in (1, 2) and p["gradient_accumulation_steps"] > 1 and p["model_outputs"] == "all"
    return version == "0.18.3" and several


def crash(version: str, p: Parameters) -> bool:
    """Needs two values, of the older release."""
    return version == "0.18.2" and p["zero_stage"] == 1 and p["objective"] == "two_backwards"


def nowhere(version: str, p: Parameters) -> bool:
    return False


def explored(
    monkeypatch: pytest.MonkeyPatch,
    budget_s: float = 400,
    wrong: Callable[[str, Parameters], bool] = nowhere,
    crashes: Callable[[str, Parameters], bool] = nowhere,
    error: str = "TypeError: 'NoneType' object is not iterable (x.py:f)",
    interrupted_after: int | None = None,
    costs: Callable[[str, Parameters], bool] = nowhere,
    full_disk: Callable[[str, Parameters], bool] = nowhere,
    followed: Callable[[str, str], None] = lambda what, which: None,
) -> Explored:
    """``interrupted_after``: so many runs. ``followed`` gets what is looked for of a fault, and its metric."""
    clock = SimpleNamespace(now=0.0)
    stored: dict[str, Result] = {}

    def measured(cell: Cell) -> Result:
        version = cell.stack.versions["deepspeed"]
        if full_disk(version, cell.parameters):
            return result_of(cell, None, MachineFault("init", "disk", "No space left on device"))
        if crashes(version, cell.parameters):
            return result_of(cell, None, Failed("backward", error))
        distance = 30.0 if wrong(version, cell.parameters) else 0.2
        numerics = Numerics(losses=[1.0], loss_error=0.1, gradient_norm_error=distance, parameter_error=0.1)
        collectives = 90 if costs(version, cell.parameters) else 30
        phase = PhaseReading(collectives={"all_gather": [collectives, 1000]})
        rank = RankRecord(rank=0, phases={"backward": phase}, numerics=numerics)
        return result_of(cell, RunRecord(outcome="passed", world_size=1, ranks=[rank]))

    def measure(cells: Sequence[Cell], **_: Any) -> list[Result]:
        for cell in cells:
            if len(stored) == interrupted_after:
                raise KeyboardInterrupt
            if cell.id not in stored:
                stored[cell.id] = measured(cell)
                clock.now += 1
        return [stored[cell.id] for cell in cells]

    monkeypatch.setattr(space, "VARIED", tuple(factor for factor in space.VARIED if factor.name in FEW))
    monkeypatch.setattr(exploring, "change_of", lambda of, *more: followed("change", of.question.metric))
    monkeypatch.setattr(exploring, "confirmation_of", lambda of, *more: followed("script", of.question.metric))
    monkeypatch.setattr(exploring.time, "monotonic", lambda: clock.now)
    made_up = SimpleNamespace(build=lambda stacks: None, keep_open=lambda: None, measure=measure, settings=Settings())
    request = ExploreQuery(
        releases=(stack("0.18.2"), stack("0.18.3")),
        published=(stack("0.18.2"), stack("0.18.3")),
        package="deepspeed",
        budget_s=budget_s,
        seed=0,
        detail_of=lambda _: None,
    )
    return explore(request, MINIMAL, cast(Session, made_up), lambda line: None)


def test_a_fault_that_needs_three_values_is_found_and_reduced_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    found = explored(monkeypatch, wrong=quarter)
    (fault,) = found.faults
    assert (fault.stack.label, fault.other and fault.other.label) == ("0.18.3", "0.18.2")
    assert fault.needs == {"zero_stage": 1, "gradient_accumulation_steps": 2, "model_outputs": "all"}
    assert fault.tries > 1
    assert found.pairs_covered


@pytest.mark.slow
def test_what_the_machine_ended_is_neither_sound_nor_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    found = explored(monkeypatch, full_disk=lambda version, p: version == "0.18.3")
    assert (found.tries, found.passed, found.pairs_covered, found.faults) == (0, 0, 0, ())
    assert f"{found.unmeasured} configurations not measured: No space left on device." in report.exploration_text(found)


@pytest.mark.slow
def test_faults_of_either_release_are_distinguished_and_by_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    found = explored(monkeypatch, wrong=quarter, crashes=crash)
    needs = {(fault.stack.label, report.needs(fault)) for fault in found.faults}
    assert needs == {
        ("0.18.3", "ZeRO stage 1 or 2, gradient accumulation 2 or 4, a model that returns several tensors"),
        ("0.18.2", "ZeRO stage 1, two backwards in a micro-batch"),
    }


def test_what_both_releases_have_tells_none_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    found = explored(monkeypatch, wrong=lambda version, p: p["evaluate"])
    assert [(fault.other, fault.needs) for fault in found.faults] == [(None, {"evaluate": True})]


def expensive(version: str, p: Parameters) -> bool:
    """Each for itself, in the newer release."""
    calls = p["evaluate"] or p["checkpoint"] or p["no_sync"] or p["objective"] == "two_runs"
    sharded = p["offload_optimizer"] or p["overlap_comm"] or p["world_size"] == 3
    return version == "0.18.3" and (calls or sharded or p["dtype"] == "fp16" or p["gradient_checkpointing"] != "none")


@pytest.mark.slow
def test_what_costs_more_is_reduced_once_nothing_new_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert explored(monkeypatch, budget_s=200, costs=expensive).pairs_covered > 0.8
    found = explored(monkeypatch, costs=expensive)
    assert {fault.question.metric for fault in found.faults if fault.is_reduced} == {"collective_count"}


def test_the_gravest_fault_has_its_script_before_another_ones_release_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_for: list[tuple[str, str]] = []
    explored(monkeypatch, wrong=quarter, costs=expensive, followed=lambda what, which: looked_for.append((what, which)))
    assert looked_for[:4] == [
        ("change", "gradient_norm_error"),
        ("script", "gradient_norm_error"),
        ("change", "collective_count"),
        ("script", "collective_count"),
    ]


def test_what_is_wrong_without_zero_hides_nothing_of_its_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(version: str, p: Parameters) -> bool:
        is_wrong = p["zero_stage"] == 0 or (p["zero_stage"] == 1 and p["checkpoint"])
        return version == "0.18.3" and p["dtype"] == "bf16" and is_wrong

    found = explored(monkeypatch, wrong=wrong)
    assert [fault.needs for fault in found.faults] == [
        {"dtype": "bf16"},
        {"dtype": "bf16", "zero_stage": 1, "checkpoint": True},
    ]


def test_what_every_stage_has_is_one_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    (fault,) = explored(monkeypatch, wrong=lambda version, p: version == "0.18.3" and p["evaluate"]).faults
    assert fault.needs == {"evaluate": True}
    assert {needs["zero_stage"] for needs in fault.all_needs} == {0, 1, 2, 3}


def test_two_sound_releases_have_no_fault_and_the_budget_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    found = explored(monkeypatch, budget_s=100)
    assert found.faults == ()
    assert found.passed == found.tries
    assert 100 <= found.seconds <= 100 + 2 * exploring.AT_ONCE


def test_a_budget_that_ends_early_leaves_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = explored(monkeypatch, budget_s=20, wrong=lambda version, p: version == "0.18.3")
    assert found.pairs_covered < 0.5
    text = report.exploration_text(found)
    assert "15 % of all pairs of values" in text
    assert text.endswith("The budget ended first: the same call with a larger --budget goes on from here.\n")


@pytest.mark.parametrize("runs", [6, 7, 20, 40, 80])
def test_an_exploration_that_is_interrupted_says_what_it_found_by_then(
    monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    found = explored(monkeypatch, wrong=lambda version, p: version == "0.18.3", interrupted_after=runs)
    assert isinstance(found.interruption, KeyboardInterrupt)
    assert [fault.stack.label for fault in found.faults] == (["0.18.3"] if found.tries else [])
    text = report.exploration_text(found)
    assert text.endswith("It was interrupted: the same call goes on from here.\n")
    assert "the budget ended" not in text
    assert json.loads(report.exploration_json(found))["interrupted"]


@pytest.mark.slow
def test_the_answer_says_what_each_fault_needs_and_the_command_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = explored(monkeypatch, wrong=quarter)
    lines = report.exploration_text(found).splitlines()
    assert lines[0] == "deepspeed 0.18.2 and 0.18.3: 1 problem that one of them has alone"
    assert lines[3:6] == [
        "",
        " 1 deepspeed 0.18.3, not 0.18.2: the gradient norm is wrong: 30 times the tolerance from plain PyTorch, rank 0",
        "   needs: ZeRO stage 1 or 2, gradient accumulation 2 or 4, a model that returns several tensors",
    ]
    assert lines[7] == (
        "   dsregress reproduce "
        "0.18.3/minimal_training/model_outputs=all,zero_stage=1,gradient_accumulation_steps=2/cpu "
        "--metric gradient_norm_error --against 0.18.2"
    )
    content = json.loads(report.exploration_json(found))
    assert content["faults"][0]["needs"] == {
        "zero_stage": 1,
        "gradient_accumulation_steps": 2,
        "model_outputs": "all",
    }


def test_what_a_release_does_not_have_yet_is_no_fault_and_is_tried_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Parameters] = []

    def absent(version: str, p: Parameters) -> bool:
        tried.append(p)
        return version == "0.18.2" and p["no_sync"]

    error = "AttributeError: 'DeepSpeedEngine' object has no attribute 'no_sync' (engine.py:f)"
    found = explored(monkeypatch, crashes=absent, error=error)
    assert found.faults == ()
    assert sum(p["no_sync"] for p in tried) == 2


@pytest.mark.parametrize(
    ("bad", "faulty", "change"),
    [
        ("0.18.5", ("0.18.4", "0.18.5"), ("0.18.3", "0.18.4", True)),
        ("0.18.1", ("0.18.1", "0.18.2"), ("0.18.2", "0.18.3", True)),
    ],
)
def test_the_release_is_found_in_which_a_fault_begins_or_ends(
    bad: str, faulty: tuple[str, ...], change: tuple[str, str, bool]
) -> None:
    releases = [stack(f"0.18.{number}") for number in range(1, 6)]

    def shows(release: Stack) -> Verdict:
        return Verdict.BAD if release.versions["deepspeed"] in faulty else Verdict.GOOD

    found = changed_in(releases, stack(bad), shows, lambda: False)
    assert (found.before.versions["deepspeed"], found.after.versions["deepspeed"], found.is_exact) == change
    assert not changed_in(releases, stack(bad), shows, lambda: True).is_exact


def test_what_was_learnt_of_a_fault_stands_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = Followed(
        change=Change(before=stack("0.18.2"), after=stack("0.18.3"), is_exact=True),
        confirmation=Confirmation(is_confirmed=False, script="", why_not="no fragment for no_sync=True"),
    )
    found = explored(monkeypatch, wrong=quarter)
    faults = tuple(msgspec.structs.replace(fault, followed=followed) for fault in found.faults)
    lines = report.exploration_text(msgspec.structs.replace(found, faults=faults)).splitlines()
    assert lines[7:9] == [
        "   since 0.18.3, not in 0.18.2",
        "   confirmed without the harness: no: no fragment for no_sync=True",
    ]
