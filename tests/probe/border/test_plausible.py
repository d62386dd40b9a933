"""Figures that no measurement can have."""

from __future__ import annotations

import dataclasses

import pytest

from dsregress.probe.border.plausible import MOST, why_implausible
from dsregress.probe.border.wire import RankRecord, RunRecord
from vgpu.figures import PhaseReading


@pytest.mark.parametrize("value", [-1, MOST + 1])
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(PhaseReading)])
def test_each_figure_of_a_phase_is_refused_below_zero_and_beyond_any_count(name: str, value: int) -> None:
    by_name = {"collectives": {"all_reduce": [1, value]}, "groups": {"all_reduce 0-3": [1, value]}}
    figures: object = {**by_name, "attention": {"flash": value}}.get(name, value)
    record = RunRecord(
        "passed", ranks=[RankRecord(rank=3, phases={"step": dataclasses.replace(PhaseReading(), **{name: figures})})]
    )
    assert "phase 'step'" in why_implausible(record)
