"""What a model is fed is compared exactly, and told as what it is; losses of other data are no second finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dsregress.compare import Thresholds, compare
from dsregress.probe.border.wire import FedBatch, FedRow, Numerics, RunRecord
from tests.builders import synthetic
from tests.builders.synthetic import result
from tests.unit.compare.two_runs import judged, said
from vgpu.figures import PhaseReading

#: Ids of three micro-batches of two rows, one micro-batch a step; 2 ends a row.
DATA = [[[5, 6, 7, 2], [5, 8, 2]], [[9, 9, 2], [9, 6, 2]], [[4, 4, 4, 2], [3, 2]]]


def row(ids: Sequence[int], *, without_labels: int = 0) -> FedRow:
    labels = [-100] * without_labels + list(ids[without_labels:])
    return FedRow(
        tokens=len(ids),
        supervised=len(ids) - without_labels,
        ids=str(ids),
        ids_but_last=str(ids[:-1]),
        last=ids[-1],
        labels=str(labels),
    )


def batches(data: Sequence[Sequence[Sequence[int]]], **how: int) -> list[FedBatch]:
    return [
        FedBatch(step=step, rows=len(rows), length=8, first_rows=[row(ids, **how) for ids in rows])
        for step, rows in enumerate(data, 1)
    ]


def run(
    fed: list[FedBatch], *, order: Sequence[int] = (), losses: Sequence[float] = (2.3, 2.2, 2.1), **phases: PhaseReading
) -> RunRecord:
    made = synthetic.record(ranks=1)
    made.ranks[0].numerics = Numerics(losses=list(losses), learning_rates=[[1e-4]] * 3)
    share = -(-len(order) // max(1, len(fed)))
    made.ranks[0].fed = [
        replace(batch, drawn=list(order[at * share : (at + 1) * share])) for at, batch in enumerate(fed)
    ]
    made.ranks[0].phases |= phases
    return made


OTHER_LOSSES = (5.3, 5.2, 5.1)


def test_the_same_batches_are_no_finding_and_losses_are_compared() -> None:
    assert said(run(batches(DATA)), run(batches(DATA))) == []
    ((_, sentence),) = said(run(batches(DATA)), run(batches(DATA), losses=OTHER_LOSSES))
    assert sentence.startswith("the loss of step ")


def test_a_missing_end_of_sequence_is_told_with_its_id_and_the_loss_is_no_second_finding() -> None:
    cut = [[ids[:-1] for ids in rows] for rows in DATA]
    whole, short = run(batches(DATA)), run(batches(cut), losses=OTHER_LOSSES)
    assert said(whole, short) == [("regression", "one token less per row: id 2 is missing at the end")]
    assert said(short, whole) == [("regression", "one token more per row: id 2 at the end")]
    (problem,) = judged(whole, short).problems
    assert [one.metric for one in problem.findings] == ["fed_difference"]


def test_labels_that_are_masked_otherwise_are_counted() -> None:
    masked = run(batches(DATA, without_labels=1))
    assert said(run(batches(DATA)), masked) == [
        ("regression", "13 of 19 tokens are trained on, were 19, from step 1 on")
    ]


def test_other_amounts_are_told() -> None:
    fewer = [*DATA[:2], [[4, 4], [3, 2]]]
    assert said(run(batches(DATA)), run(batches(fewer))) == [
        ("regression", "4 tokens in 2 rows, were 6, from step 3 on")
    ]
    halved = [rows[:1] for rows in DATA]
    assert said(run(batches(DATA)), run(batches(halved))) == [("regression", "micro-batches have 1 rows, had 2")]


def test_rows_that_are_shuffled_otherwise_are_no_fault_and_their_losses_are_not_compared() -> None:
    others = [[[8, 8, 2], [8, 1, 2]], [[7, 2], [7, 7, 2]], DATA[0]]
    base = run(batches(DATA), order=range(6))
    own = run(batches(others), order=[5, 3, 1, 0, 2, 4], losses=OTHER_LOSSES)
    sentence = (
        "other rows of the data set from step 1 on, so that losses and norms are not compared: 5, 3, 1, 0, ..., "
        "were 0, 1, 2, 3, ..."
    )
    assert said(base, own) == [("changed", sentence)]
    assert judged(base, own).problems == ()


def test_rows_in_another_order_are_known_without_a_data_loader() -> None:
    own = run(batches([DATA[1], DATA[0], DATA[2]]), losses=OTHER_LOSSES)
    sentence = "the same rows in another order, from step 1 on, so that losses and norms are not compared"
    assert said(run(batches(DATA)), own) == [("changed", sentence)]


def test_an_epoch_that_repeats_the_order_of_the_first_is_worse() -> None:
    base = run(batches([DATA[0], DATA[1], DATA[1]]), order=[0, 1, 1, 0])
    own = run(batches([DATA[0], DATA[1], DATA[0]]), order=[0, 1, 0, 1])
    sentence = "the second epoch has the order of the first, which the baseline shuffles anew"
    assert said(base, own) == [("regression", sentence)]


def test_an_epoch_that_is_fed_once_more_is_worse_though_few_draws_are_known() -> None:
    """What a data loader draws is recorded of the first steps, and here ends before the second epoch."""
    passes = [[[[one, 2]] for one in epoch] for epoch in ([5, 6, 7], [7, 5, 6], [6, 5, 7])]
    shuffled = run(batches([*passes[0], *passes[1], *passes[2]]), order=[0, 1])
    same = run(batches([*passes[1], *passes[1], *passes[1]]), order=[2, 0], losses=OTHER_LOSSES)
    sentence = "the second epoch has the order of the first, which the baseline shuffles anew"
    assert said(shuffled, same) == [("regression", sentence)]
    assert [kind for kind, _ in said(same, shuffled)] == ["changed"]


def test_other_ids_matter_where_training_differs_by_them() -> None:
    others = [[[1] * len(ids) for ids in rows] for rows in DATA]
    sentence = "other ids in as many tokens, from step 1 on"
    assert said(run(batches(DATA)), run(batches(others))) == [("changed", sentence)]
    assert said(run(batches(DATA)), run(batches(others), losses=OTHER_LOSSES)) == [("regression", sentence)]


def test_losses_of_the_steps_before_other_data_come_first() -> None:
    others = [DATA[0], *([[[1] * len(ids) for ids in rows] for rows in DATA[1:]])]
    ((_, sentence),) = said(run(batches(DATA)), run(batches(others), losses=OTHER_LOSSES))
    assert sentence.startswith("the loss of step 1 is 5.3")


def test_what_is_generated_from_other_weights_is_no_fault_of_the_data() -> None:
    longer = [DATA[0], [[9, 9, 9, 9], [9, 6, 2]], DATA[2]]
    generating: dict[str, Any] = {"generate": PhaseReading()}
    kinds = [kind for kind, _ in said(run(batches(DATA), **generating), run(batches(longer), **generating))]
    assert kinds == ["changed"]


def test_a_release_that_draws_ahead_draws_the_same() -> None:
    base, own = run(batches(DATA), order=range(6)), run(batches(DATA), order=range(8), losses=OTHER_LOSSES)
    assert said(base, own)[0][1].startswith("the loss of step ")


def test_results_without_a_record_of_their_data_are_compared_as_before() -> None:
    ((_, sentence),) = said(run([]), run(batches(DATA), losses=OTHER_LOSSES))
    assert sentence.startswith("the loss of step ")


def test_labels_that_one_release_keeps_from_the_model_are_not_compared() -> None:
    def without(batch: FedBatch) -> FedBatch:
        return replace(batch, first_rows=[replace(one, supervised=None, labels="") for one in batch.first_rows])

    unlabelled = list(map(without, batches(DATA)))
    assert said(run(batches(DATA)), run(unlabelled)) == said(run(unlabelled), run(batches(DATA))) == []
    cut = [without(one) for one in batches([[ids[:-1] for ids in rows] for rows in DATA])]
    assert said(run(batches(DATA)), run(cut)) == [("regression", "one token less per row: id 2 is missing at the end")]


def test_padding_that_one_release_does_not_mask_is_not_compared() -> None:
    masked = [replace(one, is_masked=True) for one in batches(DATA)]
    padded = batches([[[*ids, *[0] * (8 - len(ids))] for ids in rows] for rows in DATA])
    assert said(run(masked), run(padded)) == []


def test_a_simulation_compares_lengths() -> None:
    def shapes(tokens: int) -> list[FedBatch]:
        return [FedBatch(step=1, rows=1, length=tokens, first_rows=[FedRow(tokens=tokens)])]

    assert said(run(shapes(64)), run(shapes(48))) == [("regression", "48 tokens in 1 rows, were 64, from step 1 on")]


def floats(*rows: Sequence[float]) -> list[FedBatch]:
    """Return micro-batches of one row with these means of its argument."""
    return [
        FedBatch(step=step, rows=1, length=0, values={"0": [list(means)]}) for step, means in enumerate(rows, start=1)
    ]


ROWS = (1.0, 1.4), (3.0, -4.0), (0.2, 0.3)


def test_other_values_in_as_many_rows_are_worse_if_training_differs() -> None:
    base, own = run(floats(*ROWS)), floats(ROWS[0], (2.0, 4.0), ROWS[2])
    sentence = "other values of argument 1 in as many rows, from step 2 on"
    assert said(base, run(own)) == [("changed", sentence)]
    assert said(base, run(own, losses=(2.3, 9.2, 9.1))) == [("regression", sentence)]


def test_values_that_are_rounded_otherwise_are_the_same() -> None:
    assert said(run(floats(*ROWS)), run(floats(*((one * 1.004, other * 0.997) for one, other in ROWS)))) == []


def test_rows_of_the_same_values_in_another_order_are_no_regression_and_their_losses_are_not_compared() -> None:
    own = run(floats(ROWS[2], ROWS[0], ROWS[1]), losses=OTHER_LOSSES)
    sentence = "the same rows in another order, from step 1 on, so that losses and norms are not compared"
    assert said(run(floats(*ROWS)), own) == [("changed", sentence)]


def test_an_argument_that_one_release_does_not_pass_is_not_compared() -> None:
    more = [replace(batch, values={"position_ids": [[1.0, 2.0]]}) for batch in batches(DATA)]
    assert said(run(batches(DATA)), run(more)) == []


def test_workers_that_get_no_rows_any_more_are_told_before_the_order_that_follows_from_them() -> None:
    base, own = run(batches(DATA)), run(batches(DATA[::-1]), losses=OTHER_LOSSES)
    own.ranks[0].loader_workers, own.ranks[0].idle_workers = 4, 3
    sentence = "3 of 4 workers of a data loader get no rows, was 0"
    assert said(base, own) == [("regression", sentence)]
    assert [kind for kind, _ in said(own, base)] == ["changed"]  # it is mended


def test_a_stream_that_begins_anew_is_told_as_that() -> None:
    base = run(floats((1.0, 1.4), (3.0, 4.0), (0.2, 0.3), (5.0, 6.0)))
    own = run(floats((1.0, 1.4), (3.0, 4.0), (1.0, 1.4), (3.0, 4.0)))
    sentence = "from step 3 on the data of step 1 are fed again, and new ones were before"
    assert said(base, own) == [("regression", sentence)]
    assert [kind for kind, _ in said(own, base)] == ["changed"]


def test_other_rows_in_each_micro_batch_are_told_before_their_order() -> None:
    halves = [replace(batch, rows=1, first_rows=batch.first_rows[:1]) for batch in batches(DATA)]
    base, own = run(halves, order=(0, 2, 4)), run(batches(DATA), order=(0, 1, 2, 3, 4, 5))
    assert said(base, own) == [("regression", "micro-batches have 2 rows, had 1")]


def test_of_two_releases_that_go_on_from_one_checkpoint_only_one_goes_on_with_the_next_rows() -> None:
    order = [3, 1, 0, 2, 5, 4]
    results = (
        result(run=run(batches(DATA), order=order)),
        result("0.16.4", run=run(batches(DATA[::-1]), order=order[::-1])),
    )
    for one in results:
        one.cell.parameters["program"] = "CHECKPOINT_OF=deepspeed-0.15.0 python train.py --resume"
    (found,) = compare(results, synthetic.stack("0.15.0").id, Thresholds(), lambda _: None).findings
    assert found.kind == "regression"
    assert str(found.sentence).startswith("other rows of the data set from step 1 on")
