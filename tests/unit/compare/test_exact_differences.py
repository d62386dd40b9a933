"""Differences in what is exact, and the evidence for them."""

from __future__ import annotations

import dataclasses

import pytest

from dsregress.compare import compare
from dsregress.compare.exact_differences import Difference, differences
from dsregress.compare.metrics import ATTENTION_OFF_FLASH
from dsregress.compare.worst_readings import exact_values
from dsregress.config.thresholds import Thresholds
from dsregress.model import Result
from dsregress.probe.border.wire import RankRecord, RunRecord
from tests.builders import synthetic
from tests.builders.synthetic import MIB
from vgpu.figures import PhaseReading

ALL_FLASH = {"flash": 32}


def compared(before: dict[str, int], now: dict[str, int]) -> list[Difference]:
    own, base = (
        exact_values(
            RunRecord(
                outcome="passed", ranks=[RankRecord(rank=0, phases={"forward": PhaseReading(attention=attention)})]
            )
        )
        for attention in (now, before)
    )
    return [one for one in differences(own, base, Thresholds()) if one.metric == ATTENTION_OFF_FLASH.name]


def test_calls_that_leave_flash_attention_are_named_with_the_reason() -> None:
    (found,) = compared(ALL_FLASH, {"efficient: a mask is passed": 32})
    assert found.relevant
    assert str(found.sentence) == "forward leaves flash attention in 32 more calls (from 0): 0 -> 32"
    assert found.evidence == (
        "efficient: a mask is passed: 0 -> 32 of 32 calls",
        "flash: 32 -> 0 of 32 calls",
    )


@pytest.mark.parametrize("before", [ALL_FLASH, {}])
def test_the_same_calls_and_those_that_an_older_probe_did_not_count_are_no_difference(before: dict[str, int]) -> None:
    assert compared(before, ALL_FLASH) == []


def test_what_an_older_probe_did_not_count_is_no_difference_where_flash_attention_is_left() -> None:
    assert compared({}, {"math: the head size is 512": 2}) == []


def launching(version: str, scenario: str, **phases: int) -> Result:
    run = synthetic.record()
    for phase, launches in phases.items():
        run.ranks[0].phases[phase].op_launches = launches
    return synthetic.result(version, scenario=scenario, variant="base", run=run)


@pytest.mark.parametrize(
    ("scenario", "phase", "launches", "is_found"),
    [
        ("train-3f9a1c", "init", 126, False),  # half a millisecond, once
        ("train-3f9a1c", "init", 20_026, True),
        ("train-3f9a1c", "step", 126, True),  # of each step
        ("llama_zero3_backward", "init", 126, True),  # published
    ],
)
def test_operations_at_a_programs_start_count_for_less_than_those_of_a_step(
    scenario: str, phase: str, launches: int, *, is_found: bool
) -> None:
    results = [launching("0.15.0", scenario, **{phase: 26}), launching("0.16.0", scenario, **{phase: launches})]
    compared = compare(results, results[0].cell.stack.id, Thresholds(), lambda _: None)
    assert bool(compared.problems) is is_found


def holding(version: str, **phases: int) -> Result:
    run = synthetic.record()
    run.ranks[0].phases["load"] = dataclasses.replace(run.ranks[0].phases["init"])
    for phase, more in phases.items():
        run.ranks[0].phases[phase].device_retained_bytes += more * MIB
    return synthetic.result(version, scenario="train-3f9a1c", variant="base", run=run)


@pytest.mark.parametrize(
    ("later", "is_found"), [({}, False), ({"init": 100}, False), ({"init": 600, "step": 600}, True)]
)
def test_what_loading_leaves_counts_if_it_stays(later: dict[str, int], *, is_found: bool) -> None:
    results = [holding("0.15.0"), holding("0.16.0", load=800, **later)]
    compared = compare(results, results[0].cell.stack.id, Thresholds(), lambda _: None)
    said = [one for one in compared.findings if one.relevant and one.phase == "load"]
    assert bool(said) is is_found
