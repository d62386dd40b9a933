"""What is found, what is not, and what is said about it."""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from dsregress.compare import Comparison, ResultIndex, Thresholds, combine, compare, exit_code, judge_workloads
from dsregress.compare.step_times import decided
from dsregress.config.thresholds import LOOKS
from dsregress.model import Cell, Failed, Finding, Hardware, OutOfMemory, Result, Skipped, TimedOut
from dsregress.probe.border.wire import NO_NUMBER, Detail, Numerics, RoundCost, RunRecord
from tests.builders import synthetic
from tests.builders.synthetic import MIB, result

BASELINE = synthetic.stack("0.15.0").id
EVERYTHING = ("memory", "time", "numerics", "crash")


def judged(*results: Result, details: dict[str, Detail] | None = None) -> Comparison:
    """Details by DeepSpeed version."""
    found = details or {}
    return compare(results, BASELINE, Thresholds(), lambda r: found.get(r.cell.stack.versions["deepspeed"]))


def changed_run(change: Callable[[RunRecord], None], **options: Any) -> RunRecord:
    run = synthetic.record(**options)
    change(run)
    return run


def holding(mib: float, rank: int = 0) -> RunRecord:
    """A run in which one rank holds more from backward on."""

    def hold(run: RunRecord) -> None:
        phases = run.ranks[rank].phases
        phases["backward"].device_retained_bytes += int(mib * MIB)
        phases["backward"].device_peak_bytes += int(mib * MIB)
        phases["step"].device_peak_bytes += int(mib * MIB)

    return changed_run(hold)


def only(findings: tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, [found.message for found in findings]
    return findings[0]


def test_equal_runs_have_no_finding_and_exit_0() -> None:
    comparison = judged(result(), result("0.16.8"))
    assert comparison.findings == ()
    assert exit_code(comparison, EVERYTHING) == 0


def test_what_is_held_after_backward_is_the_headline_of_what_peaks() -> None:
    comparison = judged(result(), result("0.16.4", run=holding(3)))
    assert len(comparison.groups) == 1
    head = comparison.groups[0].headline
    assert (head.metric, head.phase, head.kind, head.rank) == ("device_retained_bytes", "backward", "regression", 0)
    assert head.message == "backward holds 3.00 MiB more after it ends (2.5x): 2.00 MiB -> 5.00 MiB, rank 0"
    assert {(r.metric, r.phase) for r in comparison.groups[0].related} == {
        ("device_peak_bytes", "backward"),
        ("device_peak_bytes", "step"),
    }
    assert len(comparison.findings) == 3
    assert exit_code(comparison, ["memory"]) == 1
    assert exit_code(comparison, ["time", "numerics", "crash"]) == 0


def test_the_worst_rank_is_reported_and_ranks_are_never_summed() -> None:
    head = judged(result(), result("0.16.4", run=holding(3, rank=1))).groups[0].headline
    assert head.rank == 1
    assert head.value == 5 * MIB + 2048
    assert head.baseline_value == 2 * MIB + 2048
    assert "skew 3.00 MiB" in head.evidence[0]


def test_a_difference_of_one_byte_is_significant_and_not_relevant() -> None:
    comparison = judged(result(), result("0.16.4", run=holding(1 / MIB)))
    assert {(f.significant, f.relevant) for f in comparison.findings} == {(True, False)}
    assert comparison.groups == ()
    assert comparison.small_differences == 3
    assert exit_code(comparison, EVERYTHING) == 0


def test_what_grew_from_nothing_has_no_ratio() -> None:
    def grow(run: RunRecord) -> None:
        run.ranks[0].phases["init"].host_peak_bytes = MIB

    found = only(judged(result(), result("0.16.4", run=changed_run(grow))).findings)
    assert found.ratio is None
    assert found.relevant
    assert "(from 0): 0 B -> 1.00 MiB" in found.message


def test_less_memory_is_an_improvement_and_fails_nothing() -> None:
    comparison = judged(result(run=holding(3)), result("0.16.8"))
    assert {f.kind for f in comparison.findings} == {"improvement"}
    assert exit_code(comparison, EVERYTHING) == 0


def test_functions_that_grew_are_named_from_details_that_are_read_only_for_the_finding() -> None:
    def triple(run: RunRecord) -> None:
        for rank in run.ranks:
            rank.phases["backward"].host_calls *= 3

    details = {
        "0.15.0": Detail(host_functions={"backward": {"engine.py:hook": 10, "other": 5}}),
        "0.16.4": Detail(host_functions={"backward": {"engine.py:hook": 600_010, "other": 5}}),
    }
    comparison = judged(result(), result("0.16.4", run=changed_run(triple)), result("0.16.8"), details=details)
    found = only(comparison.findings)
    assert found.message == "backward makes 600,000 more Python and C calls (3x): 300,000 -> 900,000, rank 0"
    assert "engine.py:hook: 600,000 more calls (10 -> 600,010)" in found.evidence
    assert exit_code(comparison, ["time"]) == 1


def test_more_collectives_are_reported_by_kind() -> None:
    def talk(run: RunRecord) -> None:
        run.ranks[0].phases["backward"].collectives["reduce_scatter"] = [24, 6 * MIB]

    comparison = judged(result(), result("0.16.4", run=changed_run(talk)))
    assert {f.metric for f in comparison.findings} == {"collective_count", "collective_bytes"}
    lines = comparison.groups[0].headline.evidence
    assert "reduce_scatter: 8 -> 24 calls, 2.00 MiB -> 6.00 MiB" in lines


@pytest.mark.parametrize("error", [1.5, math.inf, math.nan])
def test_wrong_numerics_need_no_baseline(error: float) -> None:
    def spoil(run: RunRecord) -> None:
        assert run.ranks[0].numerics is not None
        run.ranks[0].numerics.parameter_error = error

    comparison = judged(result(run=changed_run(spoil)), result("0.16.4", run=changed_run(spoil)))
    assert [(f.kind, f.metric, f.phase) for f in comparison.findings] == [("wrong", "parameter_error", "step")] * 2
    assert exit_code(comparison, ["numerics"]) == 1


@pytest.mark.parametrize(
    ("losses", "norms", "found"),
    [
        ([6.3, 6.1], [1.2, 1.1], []),
        ([6.2, 6.1], [1.24, 1.1], []),
        (
            [6.2, 6.5],
            [1.2, 1.1],
            ["the loss of step 2 is 6.5, was 6.1 (3.1 tolerances), rank 0"],
        ),
        (
            [6.2, 6.1],
            [4.8, 4.3],
            ["the gradient norm of step 1 is 4.8, was 1.2 (15.0 tolerances), rank 0"],
        ),
        (
            [24.8, 24.4],
            [4.8, 4.4],
            ["the loss of step 1 is 24.8, was 6.2, and its gradient norm 4.8, was 1.2 (37.5 tolerances), rank 0"],
        ),
    ],
)
def test_without_a_truth_training_is_compared_with_the_baselines(
    losses: list[float], norms: list[float], found: list[str]
) -> None:
    def untold(run: RunRecord) -> None:
        run.ranks[0].numerics = Numerics(losses=[6.2, 6.1], gradient_norms=[1.2, 1.1])

    def other(run: RunRecord) -> None:
        run.ranks[0].numerics = Numerics(losses=[*losses], gradient_norms=[*norms])

    comparison = judged(result(run=changed_run(untold)), result("0.16.4", run=changed_run(other)))
    said = [f"training differs from the baseline: {difference}" for difference in found]
    assert [finding.message for finding in comparison.findings] == said
    assert exit_code(comparison, ["numerics"]) == bool(found)


def test_where_plain_pytorch_trains_otherwise_the_program_asks_for_something_else() -> None:
    def asked(run: RunRecord, norm: float) -> None:
        numerics = run.ranks[0].numerics
        assert numerics is not None
        numerics.gradient_norms, numerics.true_gradient_norms = [norm], [norm]
        numerics.learning_rates = [[1e-4]]

    runs = [changed_run(lambda run, norm=norm: asked(run, norm)) for norm in (5.9, 1.5)]
    found = only(judged(result(run=runs[0]), result("0.16.4", run=runs[1])).findings)
    assert found.message == (
        "training differs from the baseline: the gradient norm of step 1 is 1.5 in plain PyTorch, was 5.9 "
        "(14.9 tolerances), rank 0"
    )


def test_losses_that_are_divided_otherwise_train_the_same() -> None:
    def asked(run: RunRecord) -> None:
        numerics = run.ranks[0].numerics
        assert numerics is not None
        numerics.losses = [loss / 4 for loss in numerics.losses if loss is not None]
        numerics.true_losses = [loss / 4 for loss in numerics.true_losses if loss is not None]

    assert judged(result(), result("0.16.4", run=changed_run(asked))).findings == ()


def test_losses_are_compared_with_the_baselines_where_the_truth_follows_the_program_step_by_step() -> None:
    def asked(run: RunRecord) -> None:
        numerics = run.ranks[0].numerics
        assert numerics is not None
        numerics.losses = numerics.true_losses = [6.2, 6.1]
        numerics.is_stepwise, numerics.learning_rates = True, [[1e-4]]

    def asked_for_more(run: RunRecord) -> None:
        asked(run)
        numerics = run.ranks[0].numerics
        assert numerics is not None
        numerics.losses = numerics.true_losses = [24.8, 24.4]

    found = only(judged(result(run=changed_run(asked)), result("0.16.4", run=changed_run(asked_for_more))).findings)
    assert found.message == (
        "training differs from the baseline: the loss of step 1 is 24.8, was 6.2 (37.5 tolerances), rank 0"
    )


@pytest.mark.parametrize(("rates", "is_found"), [([0.0, 1e-5], False), ([0.0, 2e-5], True), ([1e-5, 1e-5], True)])
def test_learning_rates_are_compared_without_any_values(rates: list[float], is_found: bool) -> None:
    """As in a simulation."""
    runs = [
        changed_run(lambda run, own=own: setattr(run.ranks[0], "numerics", Numerics(learning_rates=[[x] for x in own])))
        for own in ([0.0, 1e-5], rates)
    ]
    found = judged(result(run=runs[0]), result("0.16.4", run=runs[1])).findings
    assert bool(found) == is_found


@pytest.mark.parametrize(("bits", "is_found"), [([None, 32.0], False), ([None, 31.0], False), ([None, 16.0], True)])
def test_weights_that_are_trained_in_another_precision_train_otherwise(
    bits: list[float | None], is_found: bool
) -> None:
    runs = [
        changed_run(lambda run, own=own: setattr(run.ranks[0], "numerics", Numerics(losses=[6.2], weight_bits=own)))
        for own in ([None, 32.0], bits)
    ]
    found = judged(result(run=runs[0]), result("0.16.4", run=runs[1])).findings
    message = "a trained weight has 16 bits, had 32, rank 0"
    assert [one.message for one in found] == ([message] if is_found else [])


def test_each_of_several_models_is_compared_with_its_own_in_the_baseline() -> None:
    def trained(run: RunRecord, critic: float) -> None:
        run.ranks[0].numerics = None
        run.ranks[0].models = {"actor": Numerics(losses=[6.2]), "critic": Numerics(losses=[critic])}

    runs = [changed_run(lambda run, loss=loss: trained(run, loss)) for loss in (1.0, 1.1)]
    comparison = judged(result(run=runs[0]), result("0.16.4", run=runs[1]))
    message = "critic: training differs from the baseline: the loss of step 1 is 1.1, was 1 (4.5 tolerances), rank 0"
    assert [finding.message for finding in comparison.findings] == [message]


def test_a_loss_that_is_no_number_is_wrong_even_without_a_distance() -> None:
    def spoil(run: RunRecord) -> None:
        assert run.ranks[0].numerics is not None
        run.ranks[0].numerics.losses[1] = math.nan
        run.ranks[0].numerics.loss_error = None

    found = only(judged(result(), result("0.16.4", run=changed_run(spoil))).findings)
    assert (found.kind, found.value) == ("wrong", "not a number")


def test_a_weight_that_an_export_lacks_is_named() -> None:
    def leave_out(run: RunRecord) -> None:
        assert run.ranks[0].numerics is not None
        run.ranks[0].numerics.parameter_error = NO_NUMBER
        run.ranks[0].numerics.note = "embed.weight is missing"

    found = only(judged(result(), result("0.16.4", run=changed_run(leave_out))).findings)
    assert found.message == "the updated parameters are wrong: not a number (embed.weight is missing), rank 0"


def test_losses_that_differ_within_tolerance_are_no_finding() -> None:
    def move(run: RunRecord) -> None:
        assert run.ranks[0].numerics is not None
        run.ranks[0].numerics.losses[0] += 0.001
        run.ranks[0].numerics.parameter_digest = "another"

    comparison = judged(result(), result("0.16.4", run=changed_run(move)))
    assert comparison.findings == ()
    assert any("not bit-identical" in note for note in comparison.notes)


def test_a_changed_default_is_reported_once_per_stack_and_never_fails() -> None:
    same = {"number": 1.0, "text": "a", "list": [1, True]}
    before = {"zero.overlap_comm": None, "flag": 1, "nested": [1], "gone": 1}
    after = {"zero.overlap_comm": True, "flag": True, "nested": [True], "new": 2}
    details = {
        "0.15.0": Detail(configuration={**same, **before}),
        "0.16.4": Detail(configuration={**same, **after}, warnings={"beware": 3}),
    }
    old, new = {"configuration": "a", "warnings": "x"}, {"configuration": "b", "warnings": "y"}
    comparison = judged(
        *(result(variant=v, detail_sha256=old) for v in ("one", "two")),
        *(result("0.16.4", variant=v, detail_sha256=new) for v in ("one", "two")),
        details=details,
    )
    assert sorted(f.message for f in comparison.findings) == [
        "1 new setting: new; 1 setting removed: gone",
        "flag is true, was 1",
        "nested is [true], was [1]",
        "new warning: beware",
        "zero.overlap_comm is true, was null",
    ]
    assert {f.kind for f in comparison.findings} == {"changed"}
    assert exit_code(comparison, EVERYTHING) == 0


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Failed("import", "ImportError: no"), {"crash"}),
        (OutOfMemory("backward"), {"crash", "memory"}),
        (TimedOut("step", 60), {"crash"}),
    ],
)
def test_a_stack_that_fails_where_the_baseline_passes_is_a_finding(outcome: Any, words: set[str]) -> None:
    comparison = judged(result(), result("0.16.4", outcome=outcome))
    found = only(comparison.findings)
    assert (found.kind, found.metric, found.relevant) == ("failed", "outcome", True)
    for word in EVERYTHING:
        assert exit_code(comparison, [word]) == (1 if word in words else 4)


def test_a_stall_before_the_program_has_begun_is_no_regression() -> None:
    comparison = judged(result(), result("0.16.4", outcome=TimedOut("import", 180)))
    assert [(found.kind, found.relevant) for found in comparison.findings] == [("failed", False)]
    assert exit_code(comparison, EVERYTHING) == 4


def test_a_failure_never_vanishes_when_the_baseline_fails_as_well() -> None:
    broken = Failed("init", "KeyError: 'x'")
    comparison = judged(result(outcome=broken), result("0.16.4", outcome=broken), result("0.16.8"))
    kinds = {f.stack.rpartition("deepspeed")[2]: (f.kind, f.relevant) for f in comparison.findings}
    assert kinds == {"0.15.0": ("failed", False), "0.16.4": ("failed", False), "0.16.8": ("improvement", True)}
    assert any(n.reason.startswith("the baseline failed in init") for n in comparison.not_compared)


def test_crashes_beside_passes_are_a_regression_where_nothing_else_is_compared() -> None:
    broken = Failed("init", "KeyError: 'x'")
    for outcome, others, code in (
        (broken, [result("0.16.4", outcome=broken), result("0.16.8")], 1),
        (OutOfMemory("backward"), [result("0.16.4")], 1),
        (broken, [result("0.16.4", outcome=broken)], 4),
        (Failed("import", "ImportError: no"), [result("0.16.4")], 4),
    ):
        comparison = judged(result(outcome=outcome), *others)
        assert exit_code(comparison, ["crash"]) == code
        assert exit_code(comparison, ["memory", "time"]) == 4


def test_a_failure_without_any_baseline_is_a_finding() -> None:
    assert exit_code(judged(result("0.16.4", outcome=Failed("init", "boom"))), ["crash"]) == 1


def test_a_failure_of_the_harness_is_not_blamed_on_the_stack() -> None:
    comparison = judged(result(), result("0.16.4", outcome=Failed("harness", "disk full")))
    assert comparison.findings == ()
    assert comparison.not_compared[0].reason == "the harness failed: disk full"


def test_nothing_measured_is_never_a_pass() -> None:
    assert exit_code(judged(), EVERYTHING) == 4
    assert exit_code(judged(result(outcome=Skipped("no GPU"))), EVERYTHING) == 4
    assert exit_code(judged(result("0.16.4")), EVERYTHING) == 4  # no baseline to compare with
    assert exit_code(judged(result()), EVERYTHING) == 0  # one stack alone, held against the oracles


def with_cell(original: Result, **changes: Any) -> Result:
    cell: Cell = msgspec.structs.replace(original.cell, **changes)
    return msgspec.structs.replace(original, cell=cell)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (with_cell(result("0.16.4"), scenario_version=2), "scenario version 2 against the baseline's 1"),
        (with_cell(result("0.16.4"), parameters={"zero_stage": 2}), "another model, zero_stage"),
        (result("0.16.4", measuring_version="2"), "different versions of the probe, 2 against the baseline's 1"),
        (result("0.16.4", run=synthetic.record(ranks=4)), "4 ranks against the baseline's 2"),
        (result("0.16.4", outcome=Skipped("needs a GPU")), "skipped: needs a GPU"),
        (result("0.16.4", scenario="other"), "the baseline has no result for it"),
    ],
)
def test_different_work_is_never_compared_silently(other: Result, reason: str) -> None:
    comparison = judged(result(), other)
    assert comparison.findings == ()
    assert comparison.compared == 0
    assert reason in comparison.not_compared[0].reason


def test_other_hardware_compares_memory_but_not_time() -> None:
    elsewhere = Hardware(cpu="another", cores=64, memory_bytes=1 << 40)
    comparison = judged(result(), result("0.16.4", run=holding(3), hardware=elsewhere))
    assert len(comparison.findings) == 3
    assert comparison.step_times == ()
    assert comparison.not_compared[0].what == "step_time_s"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"session": "another"}, "another session"),
        ({"run": synthetic.record(rounds=3)}, "3 rounds are too few"),
        ({"run": synthetic.record(rounds=0)}, "only one side was timed"),
    ],
)
def test_time_is_compared_only_where_rounds_were_interleaved(changes: dict[str, Any], reason: str) -> None:
    comparison = judged(result(), result("0.16.4", **changes))
    assert comparison.step_times == ()
    assert reason in comparison.not_compared[0].reason


def test_time_is_compared_with_the_baseline_that_took_turns_with_it_also_when_that_ran_again_later() -> None:
    later = {"session": "later", "started_at": "2027-01-01T00:00:00Z"}
    comparison = judged(result(), result("0.16.4"), result(**later), result("0.16.8", **later))
    assert {(time.stack, time.verdict) for time in comparison.step_times} == {
        (synthetic.stack("0.16.4").id, "same"),
        (synthetic.stack("0.16.8").id, "same"),
    }


def test_each_time_is_compared_with_the_baseline_of_its_own_session() -> None:
    """A run that reuses results adds the new stacks in a session of their own, with the baseline measured again."""
    quiet, busy = synthetic.record(step_s=0.5), synthetic.record(step_s=1.0)
    later = {"session": "later", "started_at": "2027-01-01T00:00:00Z"}
    comparison = judged(
        result(run=quiet),
        result("0.16.4", run=synthetic.record(step_s=0.8)),
        result(run=busy, **later),
        result("0.16.8", run=synthetic.record(step_s=1.0), **later),
        result("0.16.9", session="without a baseline"),
    )
    names = {time.stack: round(time.ratio, 1) for time in comparison.step_times}
    assert names == {synthetic.stack("0.16.4").id: 1.6, synthetic.stack("0.16.8").id: 1.0}
    (silent,) = comparison.not_compared
    assert silent.stack == synthetic.stack("0.16.9").id
    assert "another session" in silent.reason


def test_a_lost_detail_is_a_note() -> None:
    mine = result("0.16.4", detail_sha256={"configuration": "a"})
    comparison = judged(result(detail_sha256={"configuration": "b"}), mine)
    assert comparison.findings == ()
    assert any("results/details is missing or damaged" in note for note in comparison.notes)


def test_a_wide_interval_is_not_enough_data_to_say() -> None:
    run = synthetic.record()
    run.round_s = [s * f for s, f in zip(run.round_s, [0.6, 1.5, 0.7, 1.9, 1.1, 0.8, 1.6, 1.2, 0.9], strict=True)]
    comparison = judged(result(), result("0.16.4", run=run))
    assert comparison.step_times[0].verdict == "unknown"
    assert comparison.findings == ()
    assert "not enough data to say" in comparison.not_compared[0].reason


def _disturbed(*factors: float) -> RunRecord:
    run = synthetic.record()
    run.round_s = [0.5 * factor for factor in factors]
    return run


@pytest.mark.parametrize(
    ("factors", "remedy"),
    [
        ([0.88, 1.1, 0.92, 1.09, 1.0, 0.93, 1.1, 0.96, 1.03], "about 3 times as many rounds would decide half of them"),
        ([0.6, 1.5, 0.7, 1.9, 1.1, 0.8, 1.6, 1.2, 0.9], "rounds scatter too much for any --budget"),
    ],
)
def test_step_times_without_a_verdict_are_a_note_that_says_what_would_decide_them(
    factors: list[float], remedy: str
) -> None:
    base = _disturbed(*[1.0] * 9)
    comparison = judged(result(run=base), result("0.16.4", run=base), result("0.16.8", run=_disturbed(*factors)))
    (note,) = [note for note in comparison.notes if note.startswith("step time")]
    assert note.startswith("step time: no verdict for 1 of 2 pairs; ")
    assert remedy in note


def test_every_timed_report_has_a_control() -> None:
    control = only_control(judged(result(), result("0.16.4")))
    assert control.pairs == 4
    assert control.low <= control.ratio <= control.high


def test_a_second_run_of_the_baseline_is_the_better_control() -> None:
    again = result(started_at="2026-01-01T00:00:01Z", run=synthetic.record(step_s=0.6))
    control = only_control(judged(result(), again, result("0.16.4")))
    assert control.pairs == 9
    assert control.ratio == pytest.approx(0.5 / 0.6)


def only_control(comparison: Comparison) -> Any:
    assert len(comparison.control) == 1
    return comparison.control[0]


def test_memory_comes_before_time() -> None:
    def triple(run: RunRecord) -> None:
        for rank in run.ranks:
            rank.phases["backward"].host_calls *= 30

    comparison = judged(result(), result("0.16.4", run=holding(1)), result("0.16.8", run=changed_run(triple)))
    assert [g.headline.metric for g in comparison.groups] == ["device_retained_bytes", "host_calls"]


def test_other_packages_that_differ_are_reported() -> None:
    other = result("0.16.4", installed={"torch": "2.13.0", "deepspeed": "0.16.4", "numpy": "1.26"})
    assert judged(result(), other).notes == (
        "0.16.4 differs from the baseline in more than its pins: numpy 1.26 (baseline: 2.0)",
    )


def test_what_ranks_say_of_their_figures_is_noted_once_with_the_workloads() -> None:
    def eager(run: RunRecord) -> None:
        for rank in run.ranks:
            rank.notes = ["torch.compile was not applied"]

    comparison = judged(result(), result("0.16.4", run=changed_run(eager)), result("0.16.8", run=changed_run(eager)))
    assert comparison.notes == (f"torch.compile was not applied (in {result().cell.workload})",)


def test_the_newest_result_of_a_cell_counts() -> None:
    older = result("0.16.4", run=holding(3))
    newer = result("0.16.4", started_at="2026-02-01T00:00:00Z")
    for order in ((older, newer), (newer, older)):
        comparison = judged(result(), *order)
        assert comparison.findings == ()
        assert "1 older result" in comparison.notes[0]


def test_many_results_are_compared_in_one_pass() -> None:
    comparison = compare(synthetic.results(10, 50), synthetic.stack("0.0.0").id, Thresholds(), lambda r: None)
    assert comparison.ran == 500
    assert comparison.compared == 450
    assert {f.metric for g in comparison.groups for f in [g.headline]} >= {"device_retained_bytes", "host_calls"}


def test_workloads_judged_apart_come_to_the_same_comparison() -> None:
    """Detail hashes differ by stack, workloads repeat, and the parts are pickled, as between processes."""
    results = [
        msgspec.structs.replace(one, detail_sha256={"configuration": one.cell.stack.id[-1], "warnings": "w"})
        for one in synthetic.results(6, 20)
    ]
    details = {one.cell.stack.id: Detail(configuration={"a.b": one.cell.stack.id[-1]}) for one in results}
    baseline = synthetic.stack("0.0.0").id

    def detail_of(result: Result) -> Detail:
        return details[result.cell.stack.id]

    workloads = list(dict.fromkeys(one.cell.workload for one in results))
    parts = []
    for some in (workloads[:7], workloads[7:8], workloads[8:]):
        index = ResultIndex([one for one in results if one.cell.workload in some], baseline)
        parts.append(pickle.loads(pickle.dumps(judge_workloads(index, Thresholds()))))
    apart = combine(parts, ResultIndex(results, baseline).read, baseline, Thresholds(), detail_of)
    whole = compare(results, baseline, Thresholds(), detail_of)
    assert whole.groups
    assert whole.step_times
    assert "changed" in {one.kind for one in whole.findings}
    assert len({one.key for one in whole.findings}) == len(whole.findings)
    assert list(apart.cells) == list(whole.cells)
    for name in set(whole.__struct_fields__) - {"cells"}:
        assert getattr(apart, name) == getattr(whole, name), name


def _costing(wall_s: float, processor_s: float, scatter: float = 1.0) -> RunRecord:
    """15 rounds; every other one takes ``scatter`` times as long on the wall's clock."""
    run = synthetic.record(rounds=15, rng=random.Random(round(wall_s * 1000)))
    run.round_s = [s * wall_s / 0.5 * (scatter if at % 2 else 1 / scatter) for at, s in enumerate(run.round_s)]
    run.costs = [RoundCost(processor_s * s / wall_s / (scatter if at % 2 else 1 / scatter), 0, 0, 0)
                 for at, s in enumerate(run.round_s)]  # fmt: skip
    return run


def test_processor_time_decides_where_the_walls_clock_cannot_and_is_named() -> None:
    comparison = judged(result(run=_costing(0.5, 0.6)), result("0.16.4", run=_costing(0.55, 0.75, scatter=2.0)))
    (found,) = comparison.findings
    assert (found.metric, found.kind, found.relevant) == ("step_processor_s", "regression", True)
    assert "times as much processor time" in found.message
    assert any("the wall's clock does not tell them apart" in line for line in found.evidence)
    assert [(time.verdict, time.metric) for time in comparison.step_times] == [("slower", "step_processor_s")]


def test_a_step_that_waits_is_slower_by_the_walls_clock_alone() -> None:
    comparison = judged(result(run=_costing(0.5, 0.6)), result("0.16.4", run=_costing(0.7, 0.6)))
    assert [found.metric for found in comparison.findings] == ["step_time_s"]


def test_as_much_processor_time_does_not_make_a_step_the_same_and_is_said() -> None:
    comparison = judged(result(run=_costing(0.5, 0.6)), result("0.16.4", run=_costing(0.5, 0.6, scatter=2.0)))
    assert [time.verdict for time in comparison.step_times] == ["unknown"]
    assert "; its processor time is the same, 1.00 [1.00, 1.00]" in comparison.not_compared[0].reason


@pytest.mark.parametrize("slowdown", [1.0, 1.2, 1.4])
def test_step_times_whose_rounds_stopped_as_decided_have_a_verdict_in_the_report(slowdown: float) -> None:
    noise = random.Random(slowdown)
    releases = [f"0.16.{number}" for number in range(9)]

    def waiting(factor: float, rounds: int) -> RunRecord:
        run = synthetic.record()
        run.round_s = [0.5 * factor * math.exp(noise.gauss(0, 0.07)) for _ in range(rounds)]
        run.costs = [RoundCost(0.6 * math.exp(noise.gauss(0, 0.02)), 0, 0, 0) for _ in range(rounds)]
        return run

    base = waiting(1.0, LOOKS[-1])
    runs = {release: waiting(slowdown, LOOKS[-1]) for release in releases}
    seen = dict.fromkeys(releases, 0)
    going_on = set(releases)
    for rounds in LOOKS:
        seen |= dict.fromkeys(going_on, rounds)
        so_far = {release: run.round_s[: seen[release]] for release, run in runs.items()}
        going_on -= decided(so_far, base.round_s[:rounds], len(releases), Thresholds())
    assert not going_on
    for release, run in runs.items():
        run.round_s, run.costs = run.round_s[: seen[release]], run.costs[: seen[release]]
    results = [result(release, run=run) for release, run in runs.items()]
    verdicts = {time.verdict for time in judged(result(run=base), *results).step_times}
    assert verdicts == {"slower" if slowdown > 1 else "same"}
