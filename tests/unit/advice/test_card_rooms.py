"""The room of simulated runs on their cards, and how often results are read for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsregress.advice.assessment import assess
from dsregress.advice.card_rooms import CardRooms
from dsregress.compare import Comparison, ProblemKind, ResultIndex, ResultSummary, Thresholds
from dsregress.compare.judged import judge_workloads
from dsregress.compare.verdicts import combine
from dsregress.model import Failed, Outcome, Passed, Result
from tests.builders import synthetic
from tests.builders.synthetic import result

VARIANTS = ("zero_stage=2", "zero_stage=3")


def compared(results: Sequence[Result]) -> tuple[Comparison, list[tuple[str, str | None]]]:
    """A comparison with the first result's stack, and the calls that read its cells from now on."""
    index = ResultIndex(results, results[0].cell.stack.id)
    reads: list[tuple[str, str | None]] = []

    def read(workload: str, stack: str | None) -> Mapping[str, ResultSummary]:
        reads.append((workload, stack))
        return index.read(workload)

    judged = judge_workloads(index, Thresholds())
    comparison = combine([judged], read, index.baseline, Thresholds(), lambda of: None)
    reads.clear()
    return comparison, reads


def on_card(version: str, peak_gib: int, variant: str = "zero_stage=3", outcome: Outcome | None = None) -> Result:
    made = synthetic.record()
    for rank in made.ranks:
        rank.phases["backward"].device_peak_bytes = peak_gib << 30
    one = result(version, variant=variant, device="sim", run=made, outcome=outcome or Passed())
    one.cell.parameters["gpu"] = "A800-80G"
    return one


def test_the_results_of_a_workload_are_read_once() -> None:
    comparison, reads = compared([on_card(v, 40, variant) for variant in VARIANTS for v in ("0.15.0", "0.16.0")])
    rooms = CardRooms(comparison)
    runs = [(stack.id, workload) for _ in range(2) for stack in comparison.stacks for workload in comparison.parameters]
    assert all(rooms.of(*run) is not None for run in runs)
    assert reads == [(workload, None) for workload in comparison.parameters]


def test_no_result_is_read_to_assess_what_was_not_simulated() -> None:
    held = [synthetic.noisy_record(1, held_mib=mib) for mib in (0, 9, 0)]
    versions = zip(("0.15.0", "0.16.0", "0.17.0"), held, strict=True)
    comparison, reads = compared([result(version, run=run) for version, run in versions])
    (assessed,) = assess(comparison, CardRooms(comparison))
    assert assessed.release == comparison.stacks[2].id
    assert reads == []


def test_a_run_is_too_large_unless_the_baseline_is_known_to_be_so_too() -> None:
    def is_too_large(*results: Result) -> bool:
        comparison, _ = compared(results)
        room = CardRooms(comparison).of(comparison.stacks[-1].id, results[0].cell.workload)
        assert room is not None
        return room.is_too_large

    assert is_too_large(on_card("0.15.0", 40), on_card("0.16.0", 164))
    assert not is_too_large(on_card("0.15.0", 164), on_card("0.16.0", 164))
    assert not is_too_large(on_card("0.15.0", 40), on_card("0.16.0", 41))
    crashed = on_card("0.15.0", 164, outcome=Failed("step", "TypeError: no (engine.py:step)"))
    assert is_too_large(crashed, on_card("0.16.0", 164))


def test_a_level_below_one_that_does_not_fit_is_not_out_of_memory_itself() -> None:
    """With few releases, a small level that lasts lies below a high one, and is met by another workload as well."""
    peaks = {"zero_stage=3": (40, 164, 43), "zero_stage=2": (40, 43, 43)}
    versions = ("0.15.0", "0.16.4", "0.19.8")
    comparison, _ = compared(
        [on_card(v, peak, one) for one in VARIANTS for v, peak in zip(versions, peaks[one], strict=True)]
    )
    _, high, low = (stack.id for stack in comparison.stacks)
    found = {one.problem.having: (one.kind, one.release) for one in assess(comparison, CardRooms(comparison))}
    assert found == {(high,): (ProblemKind.OUT_OF_MEMORY, low), (high, low): (ProblemKind.MORE, "")}
