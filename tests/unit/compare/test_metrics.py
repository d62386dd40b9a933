"""The table of metrics, and the limits that make a difference matter."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compare import exact, spans
from harness.compare.metrics import BY_NAME, METRICS, PHASE_METRICS, exact_values, worst_values
from harness.config.thresholds import Thresholds
from harness.probe.border.wire import PhaseReading
from harness.wording.quantities import quantity, share
from tests.builders import synthetic


def test_every_field_that_is_measured_per_phase_is_in_the_table() -> None:
    measured = set(PhaseReading.__dataclass_fields__) - {"seconds", "collectives"}
    assert measured | {"collective_count", "collective_bytes"} == {m.name for m in PHASE_METRICS}


def test_every_metric_that_is_measured_per_phase_can_be_told_of_one_release_and_of_several() -> None:
    names = {metric.name for metric in PHASE_METRICS}
    assert names <= set(exact._SENTENCES)
    assert names <= set(spans._VERBS)


def test_every_limit_that_a_metric_names_is_a_threshold() -> None:
    for metric in METRICS:
        for field in filter(None, (metric.floor, metric.share)):
            assert hasattr(Thresholds(), field), metric.name


def test_the_worst_rank_counts_for_each_metric_apart() -> None:
    run = synthetic.record()
    run.ranks[1].phases["backward"].host_calls += 5
    run.ranks[0].phases["backward"].device_peak_bytes += 7
    worst = worst_values(exact_values(run))
    assert worst["backward", "host_calls"] == 300_005
    assert worst["backward", "device_peak_bytes"] == 6 * synthetic.MIB + 7
    assert ("backward", "reserved_peak_bytes") not in worst


@given(baseline=st.integers(0, 10**12), change=st.integers(-(10**12), 10**12))
def test_a_difference_matters_only_from_both_limits_on(baseline: int, change: int) -> None:
    limits = Thresholds()
    value = max(0, baseline + change)
    matters = BY_NAME["device_peak_bytes"].relevant(value, baseline, limits)
    difference = abs(value - baseline)
    assert matters == (difference >= limits.memory_bytes and difference >= limits.memory_share * baseline)


@pytest.mark.parametrize("wrong", [{"memory_bytes": -1}, {"time_false_alarm": 0}, {"memory": 1}])
def test_impossible_thresholds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Thresholds)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "bytes", "0 B"),
        (1023, "bytes", "1023 B"),
        (1024, "bytes", "1.00 KiB"),
        (162.44 * 2**30, "bytes", "162 GiB"),
        (669_833, "calls", "669,833 calls"),
        (0.0123, "s", "12.3 ms"),
        (2.5, "s", "2.50 s"),
        (1.5e15, "operations", "1.50 Pflop"),
        (float("nan"), "bytes", "not a number"),
    ],
)
def test_numbers_read_well(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "baseline", "text"),
    [(5, 2, "2.5x"), (11, 10, "+10 %"), (5, 0, "from 0"), (0, 5, "-100 %"), (50, 2, "25x")],
)
def test_shares_read_well(value: float, baseline: float, text: str) -> None:
    assert share(value, baseline) == text
