"""What stays after each step of a program that runs on: Python objects, tensors, memory of the process."""

from __future__ import annotations

from dsregress.compare import ProblemKind, Thresholds, compare
from dsregress.compare.growing_counts import growth
from dsregress.model import Finding, Result
from tests.builders import synthetic
from tests.builders.synthetic import result

FULL = [900, 4_000, *[4_100] * 12]
MIB = 2**20


def leaking(objects: int) -> list[int]:
    return [900, 4_000, *(4_100 + objects * step for step in range(12))]


def run(version: str, counts: list[int], tensors: list[int] | None = None, resident: list[int] | None = None) -> Result:
    made = synthetic.record()
    made.ranks[0].live_objects = counts
    made.ranks[0].live_tensor_bytes = tensors or []
    made.ranks[0].resident_bytes = resident or []
    return result(version, run=made)


def all_found(*results: Result) -> list[Finding]:
    comparison = compare(results, synthetic.stack("0.15.0").id, Thresholds(), lambda one: None)
    found = [one for one in comparison.findings if one.metric.endswith("_growth")]
    assert [problem.kind for problem in comparison.problems] == [ProblemKind.LEAK] * bool(found)
    return found


def found(*results: Result) -> list[Finding]:
    return [one for one in all_found(*results) if one.metric == "object_growth"]


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


def test_tensors_that_each_step_leaves_are_a_leak_though_few_objects_hold_them() -> None:
    (finding,) = all_found(run("0.15.0", FULL, FULL), run("0.16.0", leaking(2), leaking(150 * 1024)))
    assert "each step leaves 150 KiB of tensors, was 0 B" in finding.message
    assert not all_found(run("0.15.0", FULL, FULL), run("0.16.0", FULL, leaking(64)))  # a loss that is logged


def test_memory_that_grows_by_no_tensor_is_the_hosts() -> None:
    arrays = run("0.16.0", FULL, FULL, [100 * MIB + MIB * step for step in range(14)])
    (finding,) = all_found(run("0.15.0", FULL, FULL, [100 * MIB] * 14), arrays)
    assert "each step leaves 1.00 MiB in the host's memory, was 0 B" in finding.message


def test_memory_that_tensors_explain_is_told_once() -> None:
    tensors = [MIB * step for step in range(14)]
    both = run("0.16.0", FULL, tensors, [100 * MIB + held for held in tensors])
    (finding,) = all_found(run("0.15.0", FULL, FULL, [100 * MIB] * 14), both)
    assert finding.metric == "tensor_growth"


def test_steps_that_are_too_slow_to_count_tensors_still_tell_of_the_process() -> None:
    grown = run("0.16.0", FULL, [], [100 * MIB + MIB * step for step in range(14)])
    (finding,) = all_found(run("0.15.0", FULL, FULL, [100 * MIB] * 14), grown)
    assert finding.metric == "resident_growth"
