"""The table of metrics, and the limits that make a difference matter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsregress.compare.metrics import BY_NAME, HOST_RETAINED, METRICS, OP_LAUNCHES, PHASE_METRICS, Metric, read_metrics
from dsregress.compare.worst_readings import exact_values, worst_values
from dsregress.config.thresholds import Thresholds
from dsregress.wording.quantities import quantity, share
from tests.builders import synthetic
from tests.builders.sources import parsed
from tests.paths import ROOT, SOURCE
from vgpu.figures import PhaseReading


def test_every_field_that_is_measured_per_phase_is_in_the_table() -> None:
    other_end = "late_reserved_peak_bytes"  # of a range, whose near end is compared
    of_models = {
        "moved_bytes",
        "copied_bytes",
        "groups",
    }  # what follows from them are estimates, which nothing is judged by
    by_kind = {"collectives", "attention"}
    measured = set(PhaseReading.__dataclass_fields__) - {"seconds", other_end} - by_kind - of_models
    assert measured | {"collective_count", "collective_bytes", "attention_off_flash"} == {m.name for m in PHASE_METRICS}


@pytest.mark.parametrize("metric", PHASE_METRICS, ids=lambda metric: metric.name)
def test_a_difference_of_every_metric_that_is_measured_per_phase_has_words_of_its_own(metric: Metric) -> None:
    assert [other.name for other in METRICS if other.phrase == metric.phrase] == [metric.name]


@pytest.mark.parametrize("metric", PHASE_METRICS, ids=lambda metric: metric.name)
def test_every_metric_that_is_measured_per_phase_has_both_limits(metric: Metric) -> None:
    assert metric.floor is not None
    assert metric.share is not None
    assert metric.limit(0, Thresholds()) == metric.floor(Thresholds()) > 0
    assert metric.limit(1e15, Thresholds()) == 1e15 * metric.share(Thresholds()) > 0


def test_a_phrase_says_what_a_phase_does_more_or_less() -> None:
    held = HOST_RETAINED.phrase.of_subject("init", "2 MiB", more=True)
    assert str(held) == "init holds 2 MiB more host memory after it ends"
    launched = OP_LAUNCHES.phrase.of_subject("step", "5", more=False)
    assert str(launched) == "step launches 5 fewer operations"


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Every string of a module that is no docstring, parts of f-strings as well."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


def named_metrics(tree: ast.AST) -> Iterator[str]:
    """Metrics that a module names in strings. A name that is an ordinary word (outcome) counts where a metric is meant."""
    words = {metric.name for metric in METRICS if "_" not in metric.name}
    for node in strings(tree):
        yield from (name for name in re.findall(r"\w+", node.value) if name in BY_NAME and name not in words)
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "metric":
            meant: list[ast.expr] = [node.value]
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "metric":
            meant = node.comparators
        else:
            continue
        yield from (found.value for value in meant for found in strings(value) if found.value in words)


def test_a_metric_is_named_in_the_table_and_where_it_is_measured() -> None:
    table = SOURCE / "dsregress" / "compare" / "metrics.py"
    measured = {SOURCE / "dsregress" / "probe", SOURCE / "dsregress" / "programs"}
    for file in sorted(SOURCE.rglob("*.py")):
        if file != table and measured.isdisjoint(file.parents):
            names = set(named_metrics(parsed(file)))
            assert names == set(), f"{file.relative_to(ROOT)}: refer to dsregress.compare.metrics"


def test_the_worst_rank_counts_for_each_metric_apart() -> None:
    run = synthetic.record()
    run.ranks[1].phases["backward"].host_calls += 5
    run.ranks[0].phases["backward"].device_peak_bytes += 7
    worst = worst_values(exact_values(run))
    assert worst["backward.host_calls"] == 300_005
    assert worst["backward.device_peak_bytes"] == 6 * synthetic.MIB + 7
    assert "backward.reserved_peak_bytes" not in worst


@given(baseline=st.integers(0, 10**12), change=st.integers(-(10**12), 10**12))
def test_a_difference_matters_only_from_both_limits_on(baseline: int, change: int) -> None:
    limits = Thresholds()
    value = max(0, baseline + change)
    matters = BY_NAME["device_peak_bytes"].relevant(value, baseline, limits)
    difference = abs(value - baseline)
    assert matters == (difference >= limits.memory_bytes and difference >= limits.memory_share * baseline)


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ('unit = "bytes"', "missing required field `title`"),
        ('title = "heat"\nfamily = "heat"\nunits = "K"', "unknown field `units`"),
        ('title = "heat"\nfamily = "heat"\nfloor = "heat_k"', "no such threshold: heat_k"),
        ('title = "heat"\nfamily = "heat"\nfails = "heat"', "Invalid enum value 'heat'"),
    ],
)
def test_an_entry_that_is_no_metric_is_refused(entry: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        read_metrics(f"[heat]\n{entry}".encode())


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
