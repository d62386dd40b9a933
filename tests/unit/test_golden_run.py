"""The golden run holds the measuring versions: what moves, what is said of it, and what ``--accept`` may write."""

from __future__ import annotations

import msgspec

from dsregress.probe.border.wire import RankRecord, RunRecord
from dsregress.store.measuring_versions import MeasuringVersion
from tests.builders import synthetic
from tests.golden_run import GoldenRun, complaints, golden_run
from vgpu.figures import PhaseReading

FIRST = MeasuringVersion(version=1, date="2026-01-01", reason="the first")
SECOND = MeasuringVersion(version=2, date="2026-01-02", reason="scratch memory counts")
ELSEWHERE = MeasuringVersion(
    version=2, date="2026-01-02", reason="4-bit weights", not_in_golden_run="bytes of QLoRA programs"
)


def run_of(
    calls: int = 7,
    lock: str = "lock",
    last: MeasuringVersion = FIRST,
    device: str = "cpu",
    attention: dict[str, int] | None = None,
) -> GoldenRun:
    backward = PhaseReading(host_calls=calls, seconds=calls / 10, attention=attention or {})
    record = RunRecord(outcome="passed", ranks=[RankRecord(rank=0, phases={"backward": backward})])
    result = synthetic.result("0.16.4", device=device, run=record, lock_sha256=lock)
    return golden_run([result], history(last, device))


def history(last: MeasuringVersion, device: str = "cpu") -> dict[str, tuple[MeasuringVersion, ...]]:
    return {device: (FIRST,) if last is FIRST else (FIRST, last)}


def test_equal_figures_of_one_version_are_right() -> None:
    assert complaints(run_of(), run_of(), history(FIRST)) == ([], [])


def test_a_moved_figure_is_named_with_what_to_do_and_is_not_accepted() -> None:
    assert complaints(run_of(7), run_of(8), history(FIRST)) == (
        [
            "cpu deepspeed: 1 figure moved, and the measuring version is still 1:\n"
            "  llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu, rank 0, backward: host_calls 7 -> 8\n"
            "If they should, add version 2 of cpu and the reason to harness/dsregress/probe/measuring_versions.toml, then "
            "run nox -s tests -- --accept tests/functional/test_golden_run.py"
        ],
        [],
    )


def test_a_figure_that_no_cell_had_before_has_not_moved_and_is_accepted() -> None:
    by_hand, by_accepting = complaints(run_of(), run_of(attention={"flash": 2}), history(FIRST))
    assert (by_hand, by_accepting) == ([], ["the golden run has no attention"])


def test_a_moved_figure_of_a_raised_version_is_accepted() -> None:
    by_hand, by_accepting = complaints(run_of(7), run_of(8, last=SECOND), history(SECOND))
    assert by_hand == []
    assert by_accepting == ["cpu deepspeed: the golden run is that of version 1, not of 2"]


def test_a_version_that_moves_nothing_needs_its_reason() -> None:
    assert complaints(run_of(), run_of(last=SECOND), history(SECOND)) == (
        [
            "cpu deepspeed: version 2 moves no figure of the golden run. Say in its `not_in_golden_run` which figure "
            "moves, list the adapter in its `unmoved_adapters`, or take it out of "
            "harness/dsregress/probe/measuring_versions.toml"
        ],
        [],
    )
    by_hand, by_accepting = complaints(run_of(), run_of(last=ELSEWHERE), history(ELSEWHERE))
    assert (by_hand, len(by_accepting)) == ([], 1)


def test_a_version_is_never_taken_back() -> None:
    by_hand, _ = complaints(run_of(last=SECOND), run_of(), history(FIRST))
    assert by_hand == [
        "cpu deepspeed: harness/dsregress/probe/measuring_versions.toml ends at version 1, and version 2 was there already"
    ]


def test_another_lock_may_move_figures() -> None:
    by_hand, by_accepting = complaints(run_of(7), run_of(8, lock="another"), history(FIRST))
    assert by_hand == []
    assert by_accepting == [
        "cpu deepspeed: 1 figure moved with another lock or stack",
        "the golden run is of other cells, or of another lock or stack",
    ]


def test_the_other_device_mode_stays() -> None:
    versions = {**history(SECOND), "sim": (FIRST,)}
    both = golden_run([*results("cpu"), *results("sim")], {**history(FIRST), "sim": (FIRST,)})
    raised = golden_run([*results("cpu", calls=9), *results("sim")], versions)
    assert complaints(both, raised, versions) == ([], ["cpu deepspeed: the golden run is that of version 1, not of 2"])


def results(device: str, calls: int = 7) -> list[synthetic.Result]:
    phases = {"backward": PhaseReading(host_calls=calls)}
    record = RunRecord(outcome="passed", ranks=[RankRecord(rank=0, phases=phases)])
    return [synthetic.result("0.16.4", device=device, run=record)]


def test_a_figure_of_an_adapter_that_a_version_calls_unmoved_stays() -> None:
    raised = msgspec.structs.replace(SECOND, unmoved_adapters=("deepspeed",))
    assert complaints(run_of(), run_of(last=raised), history(raised)) == ([], [])
    by_hand, _ = complaints(run_of(7), run_of(8, last=raised), history(raised))
    assert [text.partition(":\n")[0] for text in by_hand] == [
        "cpu deepspeed: 1 figure moved, and the measuring version is still 1"
    ]


def test_seconds_are_no_figure_of_it() -> None:
    (figures,) = run_of().cells.values()
    assert figures == {"rank 0": {"backward": {"host_calls": 7}, "ideal": {}}}


def test_the_file_reads_back() -> None:
    made = run_of()
    assert msgspec.json.decode(made.encode(), type=GoldenRun) == made
