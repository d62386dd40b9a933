"""Oracles: what is wrong is found without a baseline. Memory: a release that holds more than ZeRO needs."""

from __future__ import annotations

import pytest

from dsregress.compare import Comparison, Thresholds, compare, exit_code
from dsregress.compare.oracles import NOT_EACH_TIME
from dsregress.model import Finding, Result
from dsregress.probe.border.wire import (
    FROZEN_MOVED,
    GRADIENTS_KEPT,
    NOTHING_MOVES,
    OF_GLOO,
    SHIFTED_TWICE,
    Numerics,
    RunRecord,
)
from tests.builders import synthetic
from tests.builders.synthetic import MIB, result

#: What the synthetic run must hold, in bytes: a little more than it does (2 MiB and a few KiB).
IDEAL = {"parameters": MIB, "window": MIB + 8192, "persistent": 0}


def run(held_more: int = 0, rank: int = 0, phase: str = "backward") -> RunRecord:
    made = synthetic.record()
    for each in made.ranks:
        each.ideal = {f"{name}.device_retained_bytes": dict(IDEAL) for name in ("init", "backward", "step")}
    made.ranks[rank].phases[phase].device_retained_bytes += held_more
    return made


def judged(*results: Result, baseline: str = "0.15.0") -> Comparison:
    return compare(results, synthetic.stack(baseline).id, Thresholds(), lambda _: None)


def wrong(comparison: Comparison) -> list[Finding]:
    return [found for found in comparison.findings if found.kind == "wrong"]


def test_a_sound_release_is_not_mentioned() -> None:
    comparison = judged(result(run=run()), result("0.16.8", run=run()))
    assert comparison.findings == ()
    assert exit_code(comparison, ["memory"]) == 0


def test_what_a_release_holds_beyond_zero_is_found_with_no_baseline_at_all() -> None:
    comparison = judged(result("0.16.4", run=run(3 * MIB, rank=1)))
    (found,) = wrong(comparison)
    assert (found.metric, found.phase, found.rank, found.baseline_value) == ("device_excess_bytes", "backward", 1, None)
    assert found.value == 3 * MIB + 2048 - 8192
    assert found.message == (
        "backward holds 2.99 MiB more after it ends than ZeRO needs: 5.00 MiB, needed at most 2.01 MiB, rank 1"
    )
    assert found.evidence == ("needed: window 1.01 MiB, parameters 1.00 MiB",)
    assert exit_code(comparison, ["memory"]) == 1


def test_the_baseline_itself_is_judged() -> None:
    (found,) = wrong(judged(result("0.16.4", run=run(3 * MIB)), baseline="0.16.4"))
    assert found.stack == synthetic.stack("0.16.4").id


def test_the_baselines_own_excess_stands_beside_it() -> None:
    (found,) = wrong(judged(result(run=run()), result("0.16.4", run=run(3 * MIB))))
    assert found.baseline_value == 2048 - 8192


def test_less_than_the_margin_is_bookkeeping() -> None:
    at_margin = 64 * 1024 + 8192 - 2048
    assert wrong(judged(result(run=run(at_margin - 1)))) == []
    assert len(wrong(judged(result(run=run(at_margin))))) == 1


def test_what_is_held_between_forward_and_backward_is_not_judged() -> None:
    made = run(3 * MIB, phase="forward")
    made.ranks[0].ideal["forward.device_retained_bytes"] = dict(IDEAL)
    assert wrong(judged(result(run=made))) == []


def test_a_run_without_an_ideal_is_not_judged() -> None:
    assert wrong(judged(result(run=synthetic.record()))) == []


def test_the_excess_is_a_metric_of_the_cell() -> None:
    (cell,) = judged(result(run=run(1000))).cells
    flat = cell.flat()
    assert flat["backward.device_excess_bytes"] == 1000 + 2048 - 8192
    assert "forward.device_excess_bytes" not in flat


def test_what_explains_an_excess_is_kept_only_where_there_is_one() -> None:
    sound, leaking = (next(iter(judged(result(run=run(more))).cells)).excesses for more in (0, 3 * MIB))
    assert [bool(excess.terms) for excess in sound] == [False, False, False]
    assert [bool(excess.terms) for excess in leaking] == [False, True, False]


def test_training_that_was_right_when_repeated_is_said_to_be_wrong_in_one_of_two_runs() -> None:
    trained = Numerics(
        losses=[1.0], gradient_norms=[0.49], true_losses=[1.0], true_gradient_norms=[0.38], right_when_repeated=True
    )
    trained.gradient_norm_error = 4.0
    made = run()
    made.ranks[0].numerics = trained
    (found,) = wrong(judged(result(run=run()), result("0.16.8", run=made)))
    assert found.message == (
        "the gradient norm is wrong: in one of two runs, 0.49, plain PyTorch 0.38 (4 times the tolerance), rank 0"
    )
    assert NOT_EACH_TIME in found.evidence


def test_a_gradient_that_is_not_plain_pytorchs_is_named_with_no_baseline_at_all() -> None:
    made = synthetic.record()
    made.ranks[0].numerics = Numerics(
        losses=[2.3],
        parameter_error=50.0,
        gradient_apart="the gradient of up.weight in step 2 is 2 times plain PyTorch's",
    )
    (found,) = wrong(judged(result("0.16.4", run=made)))
    assert found.message == (
        "the updated parameters are wrong: the gradient of up.weight in step 2 is 2 times plain PyTorch's (50 times the "
        "tolerance), rank 0"
    )


FIRST = (
    "layers.1.mlp.up, forward, micro-batch 1 of step 1, each rank: its inputs are equal, its output is 9 tolerances off"
)
NONE = "no module: all inputs, outputs and their gradients are equal"


@pytest.mark.parametrize(
    ("first", "said"), [(FIRST, ", first in layers.1.mlp.up, forward, micro-batch 1 of step 1, each rank"), (NONE, "")]
)
def test_the_first_module_that_differs_is_in_the_finding_and_how_in_its_evidence(first: str, said: str) -> None:
    made = synthetic.record()
    made.ranks[0].numerics = Numerics(losses=[2.3], parameter_error=50.0, first_module=first)
    (found,) = wrong(judged(result("0.16.4", run=made)))
    assert found.message == (
        f"the updated parameters are wrong: 50 times the tolerance from plain PyTorch{said}, rank 0"
    )
    assert f"first difference: {first}" in found.evidence


def test_what_only_gloo_may_do_is_said_in_the_finding_itself() -> None:
    made = synthetic.record()
    made.ranks[0].numerics = Numerics(
        losses=[2.3, 2.3],
        gradient_norms=[1.0, 1.0],
        true_gradient_norms=[0.5, 0.5],
        loss_error=9.0,
        gradient_norm_error=50.0,
        parameter_error=50.0,
        note=f"the gradient of w: it is a sum, {OF_GLOO}",
    )
    found = wrong(judged(result("0.16.4", run=made)))
    assert {one.metric: "; only CPU ranks may have it, rank 0" in one.message for one in found} == {
        "loss_error": False,
        "gradient_norm_error": True,
        "parameter_error": True,
    }


def test_training_nothing_is_wrong_also_where_the_truth_follows_the_program_step_by_step() -> None:
    made = synthetic.record()
    zeros: list[float | None] = [0.0, 0.0]
    made.ranks[0].numerics = Numerics(
        losses=[2.3, 2.3], gradient_norms=zeros, true_gradient_norms=zeros, is_stepwise=True
    )
    (found,) = wrong(judged(result("0.16.4", run=made)))
    assert found.value == "no gradient"


def test_dropout_in_an_evaluation_is_wrong_with_no_baseline_at_all() -> None:
    made = synthetic.record()
    made.ranks[0].numerics = Numerics(losses=[2.3], dropping=["layers.0.dropout", "layers.1.dropout"])
    (found,) = wrong(judged(result("0.16.4", run=made)))
    assert (found.metric, found.value) == ("loss_error", "dropout in evaluation")
    assert found.message == (
        "the loss is wrong: the model evaluates with dropout on, in layers.0.dropout, layers.1.dropout, rank 0"
    )


@pytest.mark.parametrize(
    ("names", "said"),
    [([], ""), (["layers.1.before.weight", "norm.weight"], ", in layers.1.before.weight, norm.weight")],
)
def test_replicas_with_other_weights_train_wrong_with_no_baseline_at_all(names: list[str], said: str) -> None:
    made = synthetic.record()
    made.ranks[0].numerics = Numerics(losses=[2.3], replicas_apart=1, apart_in=names)
    (found,) = wrong(judged(result("0.16.4", run=made)))
    assert (found.metric, found.value) == ("parameter_error", "replicas apart")
    assert found.message == (
        "the updated parameters are wrong: 1 rank has other weights than the first one, of which it is a "
        f"replica{said}, rank 0"
    )


@pytest.mark.parametrize(
    ("invariant", "metric", "word", "said"),
    [
        (
            GRADIENTS_KEPT,
            "gradient_norm_error",
            "gradients kept",
            "the gradient norm is wrong: gradients of the step before are not set to zero, of up.weight",
        ),
        (
            NOTHING_MOVES,
            "parameter_error",
            "nothing moves",
            "the updated parameters are wrong: no step moves any trained weight, of up.weight",
        ),
        (
            FROZEN_MOVED,
            "parameter_error",
            "frozen weights move",
            "the updated parameters are wrong: a step moves frozen weights, up.weight",
        ),
        (
            SHIFTED_TWICE,
            "loss_error",
            "labels shifted twice",
            "the loss is wrong: labels are the next tokens already, and up.weight shifts them once more",
        ),
    ],
)
def test_a_broken_invariant_is_wrong_with_no_baseline_also_where_the_truth_has_the_same(
    invariant: str, metric: str, word: str, said: str
) -> None:
    made = synthetic.record()
    made.ranks[0].numerics = Numerics(
        losses=[2.3],
        loss_error=0.1,
        gradient_norm_error=0.1,
        parameter_error=0.1,
        broken={invariant: ["up.weight"]},
    )
    (found,) = wrong(judged(result("0.16.4", run=made)))
    assert (found.metric, found.value, found.message) == (metric, word, f"{said}, rank 0")
