"""Logged losses and gradient norms against the baseline's."""

from __future__ import annotations

import pytest

from dsregress.compare import Thresholds, compare
from dsregress.model import Finding
from dsregress.probe.border.wire import Numerics, RunRecord
from tests.builders import synthetic
from tests.builders.synthetic import result

Shown = list[dict[str, float | None]]


def run(shown: Shown, *, loss: float = 2.3, ended: bool = True) -> RunRecord:
    made = synthetic.record()
    made.ranks[0].numerics = Numerics(losses=[loss])
    for rank in made.ranks:
        rank.ended = ended
    made.ranks[0].logged = shown
    return made


def findings(base: RunRecord, own: RunRecord) -> tuple[Finding, ...]:
    results = result(run=base), result("0.16.4", run=own)
    return compare(results, synthetic.stack("0.15.0").id, Thresholds(), lambda _: None).findings


BASE: Shown = [{"loss": 2.0, "grad_norm": 1.0}, {"loss": 1.9, "grad_norm": 1.1}, {"eval_loss": 1.8}]


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ([{"loss": 16.0, "grad_norm": 1.0}, {"loss": 15.2, "grad_norm": 1.1}, {"eval_loss": 1.8}], "loss is 16, was 2"),
        (
            [{"loss": None, "grad_norm": 1.0}, {"loss": None, "grad_norm": 1.1}, {"eval_loss": 1.8}],
            "loss is none, was 2",
        ),
        (BASE[:2], "eval_loss is no longer logged"),
        ([*BASE[:2], {"eval_loss": 0.0}], "eval_loss is 0, was 1.8"),
    ],
)
def test_numbers_that_are_only_shown_otherwise_are_a_difference(shown: Shown, message: str) -> None:
    (found,) = findings(run(BASE), run(shown))
    assert (found.metric, found.kind) == ("logged_difference", "regression")
    assert found.message == f"what it logs differs from the baseline, and what it trains does not: {message}"


@pytest.mark.parametrize(
    "shown",
    [
        [*BASE, {"loss": 9.0, "entropy_loss": 3.0}],  # it shows more
        [{"loss": 2.02, "grad_norm": 1.0}, {"loss": 1.9, "grad_norm": 1.3}, {"eval_loss": 1.8}],
        [],  # nothing is known of it: it logs by other means
    ],
)
def test_what_is_near_or_shown_besides_is_none(shown: Shown) -> None:
    assert findings(run(BASE), run(shown)) == ()


def test_what_is_shown_later_by_a_program_that_was_ended_is_not_missed() -> None:
    assert findings(run(BASE), run(BASE[:2], ended=False)) == ()


def test_what_is_shown_of_other_training_follows_from_it() -> None:
    found = findings(run(BASE), run([{"loss": 9.0}], loss=9.0))
    assert [one.metric for one in found] == ["training_difference"]
