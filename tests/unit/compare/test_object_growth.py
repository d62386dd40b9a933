"""Python objects that stay after each step of a program that runs on."""

from __future__ import annotations

from dsregress.compare import ProblemKind, Thresholds, compare
from dsregress.compare.growing_counts import growth
from dsregress.model import Finding, Result
from tests.builders import synthetic
from tests.builders.synthetic import result

FULL = [900, 4_000, *[4_100] * 12]


def leaking(objects: int) -> list[int]:
    return [900, 4_000, *(4_100 + objects * step for step in range(12))]


def run(version: str, counts: list[int]) -> Result:
    made = synthetic.record()
    made.ranks[0].live_objects = counts
    return result(version, run=made)


def found(*results: Result) -> list[Finding]:
    comparison = compare(results, synthetic.stack("0.15.0").id, Thresholds(), lambda one: None)
    found = [one for one in comparison.findings if one.metric == "object_growth"]
    assert [problem.kind for problem in comparison.problems] == [ProblemKind.LEAK] * len(found)
    return found


def test_objects_that_pile_up_are_a_leak_of_the_release() -> None:
    (finding,) = found(run("0.15.0", FULL), run("0.16.0", leaking(1_200)))
    assert (finding.value, finding.baseline_value, finding.relevant) == (1_200.0, 0.0, True)
    assert "each step leaves 1,200 objects, was 0" in finding.message


def test_the_log_of_a_trainer_and_what_the_baseline_leaves_as_well_are_none() -> None:
    assert not found(run("0.15.0", FULL), run("0.16.0", leaking(9)))
    assert not found(run("0.15.0", leaking(1_200)), run("0.16.0", leaking(1_210)))


def test_a_few_steps_say_nothing() -> None:
    assert not found(run("0.15.0", FULL), run("0.16.0", leaking(1_200)[:7]))
    assert not found(run("0.15.0", []), run("0.16.0", leaking(1_200)))


def test_a_cache_that_fills_now_and_then_does_not_grow() -> None:
    assert growth([900, 4_000, 4_100, 9_100, 9_100, 9_100, 14_100, 14_100, 14_100, 14_100]) == 0.0
