"""Advice on published results names no release that is wrong, fails or does not fit in the same conditions."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.advice import gpus
from dsregress.advice.capacity import available_bytes
from dsregress.cli import options
from dsregress.cli.stored_results import most_common, stack_id
from dsregress.compare import Comparison
from dsregress.errors import UsageError
from dsregress.model import Passed
from dsregress.report.context import report_context
from dsregress.report.report_view import report_view
from dsregress.run import pipeline, targets
from dsregress.store import Store
from tests.paths import ROOT

#: The accuracy's have a job for each release, and nothing to compare.
BUNDLES = sorted(b for b in (ROOT / "results").glob("*.jsonl.gz") if not b.name.endswith("-accuracy.jsonl.gz"))

#: A report on one of these takes more than half a minute.
_MANY_BYTES = 1_000_000

#: Rules a release out only where the baseline fits.
TOO_LARGE = "it does not fit"


def compared(bundle: Path) -> Comparison:
    settings = options.load_settings()
    store = Store(str(bundle))
    package = targets.varied_package(settings)
    known = sorted(store.stack_ids())
    try:
        baseline = stack_id(settings.baseline, package, known, like=most_common(known, package))
    except UsageError:  # it lacks the configured one
        baseline = known[0]
    return pipeline.compare_stored([store], baseline, settings, pytest.fail)


def speaks_against(comparison: Comparison, stack: str, workload: str) -> list[str]:
    """What is wrong with one run, as its result and the findings have it, without the rule that gives the advice."""
    cell = comparison.cells.of(stack, workload)
    assert cell is not None
    if not isinstance(cell.result.outcome, Passed):
        return ["it did not pass"]
    numerics = ("loss_error", "gradient_norm_error", "parameter_error")
    reasons = [f"{name} is {size}" for name, size in cell.errors if name in numerics and not size <= 1]
    parameters = cell.result.cell.parameters
    if cell.result.cell.device == "sim" and parameters.get("gpu"):
        room = available_bytes(gpus.card(str(parameters["gpu"])), parameters)
        needed = max(size for name, size in cell.worst().items() if name.endswith(".device_peak_bytes"))
        smallest = [size for name, size in cell.worst().items() if name.endswith(".smallest_card_bytes")]
        if max([needed, *smallest]) > room:
            reasons.append(TOO_LARGE)
    return reasons


def _marked(bundle: Path) -> object:
    marks = pytest.mark.nightly if bundle.stat().st_size > _MANY_BYTES else ()
    return pytest.param(bundle, id=bundle.name, marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("bundle", [_marked(bundle) for bundle in BUNDLES])
def test_no_advice_names_a_release_that_is_wrong_or_fails_or_does_not_fit(bundle: Path) -> None:
    comparison = compared(bundle)
    lines = [line for section in report_view(report_context(comparison)).screen.sections for line in section.problems]
    advised = [(line, line.release_to_use) for line in lines if line.release_to_use]
    for line, release in advised:
        assert release in line.free
        for workload in line.workloads:
            if release in comparison.cells.stacks_of(workload):
                against = speaks_against(comparison, release, workload)
                if comparison.baseline in comparison.cells.stacks_of(workload) and against == [TOO_LARGE]:
                    assert TOO_LARGE in speaks_against(comparison, comparison.baseline, workload), line.text
                else:
                    assert against == [], line.text


def test_there_is_advice_to_check() -> None:
    comparison = compared(ROOT / "results" / "2026-11-26.jsonl.gz")
    lines = [line for section in report_view(report_context(comparison)).screen.sections for line in section.problems]
    large = "llama3_70b_zero3/gradient_checkpointing=non_reentrant/sim"
    (memory,) = [line for line in lines if line.release_to_use and large in line.workloads]
    assert comparison.names[memory.release_to_use] == "0.16.8"
    assert speaks_against(comparison, memory.having[0], large)
