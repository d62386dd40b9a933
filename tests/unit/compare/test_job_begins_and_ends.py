"""The weights with which a program's models begin, and the steps after which it ends, against the baseline's."""

from __future__ import annotations

import msgspec
import pytest

from dsregress.compare import Comparison, ProblemKind, Thresholds, compare
from dsregress.compare.causal_order import causal_position
from dsregress.model import WRITTEN_BY, Result
from dsregress.probe.border.wire import Numerics
from tests.builders import synthetic
from tests.builders.synthetic import result


def run(
    version: str,
    start: dict[str, list[float]] | None = None,
    *,
    steps: int = 0,
    ended: bool = False,
    loss: float = 3.0,
    line: str = "",
    trained: dict[str, int] | None = None,
) -> Result:
    made = synthetic.record()
    for rank in made.ranks:
        rank.numerics = Numerics(
            losses=[loss] * 3, learning_rates=[[1e-3]] * 3, start=start or {}, trained=trained or {}
        )
        rank.steps, rank.ended = steps, ended
    whole = result(version, run=made)
    parameters = {**whole.cell.parameters, "program": line}
    return msgspec.structs.replace(whole, cell=msgspec.structs.replace(whole.cell, parameters=parameters))


def judged(*results: Result) -> Comparison:
    return compare(results, synthetic.stack("0.15.0").id, Thresholds(), lambda one: None)


def messages(*results: Result) -> list[str]:
    return [one.message for one in judged(*results).findings]


def test_a_model_that_begins_with_other_weights_is_told_before_its_losses() -> None:
    loaded, drawn = {"lin.weight": [0.5, 16]}, {"lin.weight": [0.0179, 16]}
    comparison = judged(run("0.15.0", loaded), run("0.16.0", drawn, loss=5.0))
    assert [problem.kind for problem in comparison.problems] == [ProblemKind.DIFFERENT]
    first = min(comparison.findings, key=causal_position)
    assert "begins with other weights: lin.weight is 0.0179 on average, was 0.5" in first.message


@pytest.mark.parametrize("loss", [3.0, 5.0])
def test_a_buffer_with_other_values_is_told_where_what_is_trained_differs(loss: float) -> None:
    base, own = {"buffer scale": [2.0, 8]}, {"buffer scale": [0.0, 8]}
    told = [text for text in messages(run("0.15.0", base), run("0.16.0", own, loss=loss)) if "begins with" in text]
    assert told == [text for text in told if "buffer scale is 0 on average, was 2" in text]
    assert bool(told) is (loss != 3.0)


@pytest.mark.parametrize("loss", [3.0, 5.0])
def test_an_added_row_that_begins_otherwise_is_told_where_what_is_trained_differs(loss: float) -> None:
    base = {"emb.weight": [0.016, 64_000], "emb.weight (last row)": [0.016, 64]}
    own = {"emb.weight": [0.0161, 64_000], "emb.weight (last row)": [0.0007, 64]}
    told = [text for text in messages(run("0.15.0", base), run("0.16.0", own, loss=loss)) if "begins with" in text]
    assert told == [text for text in told if "emb.weight (last row) is 0.0007 on average, was 0.016" in text]
    assert bool(told) is (loss != 3.0)


def test_what_is_trained_is_named_before_what_is_frozen() -> None:
    """An adapter that is not loaded is the cause, however large the frozen weights are that differ by a draw."""
    base = {"lora_A.weight": [0.5, 512], "patches.weight": [0.5, 9000]}
    own = {"lora_A.weight": [0.1, 512], "patches.weight": [0.3, 9000]}
    (told,) = messages(
        run("0.15.0", base, trained={"lora_A.weight": 512}), run("0.16.0", own, trained={"lora_A.weight": 512})
    )
    assert "lora_A.weight is 0.1 on average, was 0.5, and 1 more differ" in told


def test_the_last_row_of_a_tensor_that_differs_as_a_whole_is_no_second_difference() -> None:
    base = {"emb.weight": [0.5, 64_000], "emb.weight (last row)": [0.5, 64]}
    own = {"emb.weight": [0.02, 64_000], "emb.weight (last row)": [0.02, 64]}
    (told,) = (text for text in messages(run("0.15.0", base), run("0.16.0", own, loss=5.0)) if "begins with" in text)
    assert "more differ" not in told


@pytest.mark.parametrize(
    ("own", "base"),
    [
        ({"a": [0.020, 16]}, {"a": [0.015, 16]}),  # drawn once more
        ({"a": [0.0201, 10**6]}, {"a": [0.02, 10**6]}),
        ({"a": [0.0, 8]}, {"a": [0.0, 8]}),
        ({"renamed": [0.5, 64]}, {"a": [0.02, 64]}),
        ({}, {"a": [0.02, 64]}),
    ],
)
def test_draws_of_one_distribution_and_other_names_are_no_other_weights(
    own: dict[str, list[float]], base: dict[str, list[float]]
) -> None:
    assert not messages(run("0.15.0", base), run("0.16.0", own))


RESUMED = f"{WRITTEN_BY}=0.15.0 python train.py --resume"


@pytest.mark.parametrize(("own", "told"), [(0.0201, True), (0.0200001, False)])
def test_weights_that_are_loaded_from_one_file_differ_by_no_more_than_rounding(own: float, told: bool) -> None:
    base, other = {"a": [0.02, 10**6]}, {"a": [own, 10**6]}
    found = messages(run("0.15.0", base, line=RESUMED), run("0.16.0", other, line=RESUMED))
    assert bool(found) is told


def test_weights_that_a_release_renames_are_compared() -> None:
    base = {
        "base.model.layers.*.q_proj.lora_B.weight": [0.01, 512],
        "base.model.layers.*.k_proj.lora_B.weight": [0.0, 512],
    }
    own = {name.replace("model.", "model.language_model."): [0.0, 512] for name in base}
    (text,) = messages(run("0.15.0", base), run("0.16.0", own))
    assert "base.model.language_model.layers.*.q_proj.lora_B.weight is 0 on average, was 0.01" in text


def test_zeros_where_weights_were_and_many_weights_are_told_at_once() -> None:
    base = {"head.weight": [0.02, 64], "body.weight": [0.02, 10**6]}
    own = {"head.weight": [0.0, 64], "body.weight": [0.03, 10**6]}
    (text,) = messages(run("0.15.0", base), run("0.16.0", own))
    assert "body.weight is 0.03 on average, was 0.02, and 1 more differ" in text


@pytest.mark.parametrize(
    ("base", "own", "said"),
    [
        ((18, False), (8, True), "training ends after 8 optimizer steps, and went on before"),
        ((12, True), (6, True), "training ends after 6 optimizer steps, was 12"),
        ((6, True), (18, False), "training goes on after 6 optimizer steps, and ended with them before"),
        ((18, False), (9, False), ""),  # a slow one is ended earlier
        ((12, True), (9, False), ""),
        ((12, True), (12, True), ""),
        ((0, False), (8, True), ""),
    ],
)
def test_a_program_that_ends_after_other_steps_is_seen(
    base: tuple[int, bool], own: tuple[int, bool], said: str
) -> None:
    old, new = (
        run(version, steps=steps, ended=ended) for version, (steps, ended) in (("0.15.0", base), ("0.16.0", own))
    )
    found = messages(old, new)
    assert [text.partition(": ")[2] for text in found] == [said] * bool(said)


LORA = {"lora_A.weight": 1024}


@pytest.mark.parametrize(
    ("loss", "trained", "told"),
    [
        (3.2, LORA, False),  # by chance
        (3.6, LORA, True),
        (3.2, {"other.weight": 8}, True),  # what is drawn is not trained
    ],
)
def test_losses_of_other_random_weights_differ_by_chance(loss: float, trained: dict[str, int], *, told: bool) -> None:
    base, own = {"lora_A.weight": [0.0634, 1024]}, {"lora_A.weight": [0.0630, 1024]}
    comparison = judged(run("0.15.0", base, trained=trained), run("0.16.0", own, loss=loss, trained=trained))
    assert bool(comparison.problems) is told
    said = [one.message for one in comparison.findings if one.kind == "changed"]
    assert said == (["other random weights are drawn (lora_A.weight), rank 0"] if trained is LORA else [])


def test_rounding_is_no_other_draw() -> None:
    base, own = {"lora_A.weight": [0.0634, 1024]}, {"lora_A.weight": [0.063405, 1024]}
    assert messages(run("0.15.0", base, trained=LORA), run("0.16.0", own, loss=3.2, trained=LORA))
