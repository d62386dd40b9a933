"""What a program saves, beside what it saves with the baseline."""

from __future__ import annotations

import pytest

from dsregress.compare import ProblemKind
from dsregress.probe.border.wire import Numerics, RunRecord, SavedTensors
from tests.builders import synthetic
from tests.unit.compare.two_runs import judged

EMBEDDING = SavedTensors(name="embed.weight", dtype="bfloat16", shape=[96, 64], count=1, mean=0.02)
NAME = "layers.*.mlp.weight"
LAYERS = SavedTensors(name=NAME, dtype="bfloat16", shape=[64, 64], count=4, mean=0.02)


def run(*saved: SavedTensors, loss: float = 2.3, rank: int = 0) -> RunRecord:
    made = synthetic.record()
    made.ranks[rank].saved = list(saved)
    made.ranks[0].numerics = Numerics(losses=[loss])
    return made


def other(tensors: SavedTensors, **changed: object) -> SavedTensors:
    fields = ("name", "dtype", "shape", "count", "mean")
    return SavedTensors(**{**{name: getattr(tensors, name) for name in fields}, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ([EMBEDDING, other(LAYERS, shape=[4096])], f"4 of 5 tensors in another shape ({NAME}: 4096, was 64x64)"),
        (
            [EMBEDDING, other(LAYERS, dtype="float32")],
            f"4 of 5 tensors in another dtype ({NAME}: float32, was bfloat16)",
        ),
        ([EMBEDDING, other(LAYERS, count=3)], f"1 of 5 tensors not saved ({NAME})"),
        (
            [EMBEDDING, other(LAYERS, count=3), other(LAYERS, count=1, shape=[0])],
            f"4 of 5 tensors in another shape ({NAME}: 0, was 64x64)",
        ),
        ([other(EMBEDDING, shape=[6144])], f"4 of 5 tensors not saved ({NAME}); 1 differ otherwise"),
        ([EMBEDDING, other(LAYERS, mean=0.0)], f"4 of 5 tensors with other values ({NAME}: on average 0, was 0.02)"),
        ([], "5 of 5 tensors not saved (embed.weight)"),
        (
            [EMBEDDING, other(LAYERS, name=f"model.{NAME}")],
            f"4 of 5 tensors saved under another name (model.{NAME}, was {NAME})",
        ),
        (
            [EMBEDDING, other(LAYERS, name="layers.*.attention.weight")],
            f"4 of 5 tensors not saved ({NAME})",
        ),
    ],
)
def test_other_tensors_are_a_changed_checkpoint(saved: list[SavedTensors], message: str) -> None:
    comparison = judged(run(EMBEDDING, LAYERS), run(*saved))
    (problem,) = comparison.problems
    assert problem.kind is ProblemKind.SAVES
    assert comparison.findings[0].message.startswith("saved checkpoint differs from the baseline: ")
    assert comparison.findings[0].message.endswith(message)


@pytest.mark.parametrize(
    "saved",
    [
        [LAYERS, EMBEDDING],
        [EMBEDDING, LAYERS, other(LAYERS, name="head.weight", count=1)],  # a little that is saved besides harms nobody
        [EMBEDDING, other(LAYERS, mean=0.0201)],
        [EMBEDDING, other(LAYERS, mean=None)],  # a simulation knows no values
    ],
)
def test_the_same_tensors_are_no_finding(saved: list[SavedTensors]) -> None:
    assert judged(run(EMBEDDING, LAYERS), run(*saved)).findings == ()


def test_another_rank_may_save_them() -> None:
    assert judged(run(EMBEDDING, LAYERS), run(EMBEDDING, LAYERS, rank=1)).findings == ()


def test_values_of_what_is_trained_otherwise_are_not_compared() -> None:
    found = judged(run(LAYERS), run(other(LAYERS, mean=0.5), loss=9.0)).findings
    assert [one.metric for one in found] == ["training_difference"]


def test_a_file_of_weights_without_a_tensor_is_wrong_with_the_baseline_too() -> None:
    empty, full = run(EMBEDDING), run(EMBEDDING)
    empty.ranks[0].empty_files = ["adapter_model.safetensors"]
    comparison = judged(empty, full)
    (found,) = comparison.findings
    assert (found.stack, found.kind, found.metric) == (synthetic.stack("0.15.0").id, "wrong", "empty_file")
    assert found.message == "a file of weights is saved without a tensor: adapter_model.safetensors"
    (problem,) = comparison.problems
    assert problem.kind is ProblemKind.WRONG
    assert problem.until == synthetic.stack("0.15.0").id


def test_trained_weights_that_a_model_does_not_save_are_wrong_without_a_baseline() -> None:
    lost, whole = run(EMBEDDING), run(EMBEDDING)
    lost.ranks[0].unsaved = ["score.weight: not saved", "score.bias: not saved"]
    comparison = judged(whole, lost)
    (found,) = comparison.findings
    assert (found.stack, found.kind, found.metric) == (synthetic.stack("0.16.4").id, "wrong", "unsaved_weights")
    assert found.message == "trained weights are not saved as they are: score.bias: not saved and 1 more"
    assert found.evidence == ("score.bias: not saved", "score.weight: not saved")
    (found,) = judged(lost, whole).findings
    assert found.stack == synthetic.stack("0.15.0").id


def test_weights_that_are_loaded_with_other_values_than_were_saved_are_wrong_without_a_baseline() -> None:
    lost, whole = run(EMBEDDING), run(EMBEDDING)
    lost.ranks[0].loaded_otherwise = ["lin.weight: on average 0.02 is loaded, and 0.5 was saved"]
    (found,) = judged(whole, lost).findings
    assert (found.kind, found.metric) == ("wrong", "loaded_otherwise")
    assert found.message.endswith("lin.weight: on average 0.02 is loaded, and 0.5 was saved")
    (found,) = judged(lost, whole).findings
    assert found.stack == synthetic.stack("0.15.0").id


def ended(*saved: SavedTensors, last: tuple[SavedTensors, ...]) -> RunRecord:
    made = run(*saved)
    made.ranks[0].saved_last = list(last)
    return made


def test_what_is_saved_until_a_program_ends_is_compared_where_both_end() -> None:
    whole = ended(LAYERS, last=(LAYERS, EMBEDDING))
    (found,) = judged(whole, ended(LAYERS, last=(LAYERS,))).findings
    assert found.message.endswith("1 of 5 tensors not saved (embed.weight)")
    assert judged(whole, run(LAYERS)).findings == ()  # it was ended
    assert judged(whole, ended(LAYERS, last=(LAYERS, other(EMBEDDING, mean=9.0)))).findings == ()  # of later steps
    (found,) = judged(whole, ended(other(LAYERS, mean=9.0), last=(LAYERS, EMBEDDING))).findings
    assert "with other values" in found.message


def of_an_engine(*names: str, trained: tuple[str, ...], frozen: str = "") -> RunRecord:
    fragments = [other(LAYERS, name=f"frozen_param_fragments.{frozen}")] if frozen else []
    made = run(*(other(LAYERS, name=f"module.{name}") for name in names), *fragments)
    assert made.ranks[0].numerics is not None
    made.ranks[0].numerics.trained = dict.fromkeys(trained, 8)
    return made


def test_an_engine_that_no_longer_saves_frozen_weights_beside_adapters_loses_nothing() -> None:
    whole = of_an_engine("base.weight", "lora_A.weight", trained=("lora_A.weight",))
    assert judged(whole, of_an_engine("lora_A.weight", trained=("lora_A.weight",))).findings == ()
    apart = of_an_engine("lora_A.weight", frozen="base.weight", trained=("lora_A.weight",))
    assert judged(apart, of_an_engine("lora_A.weight", trained=("lora_A.weight",))).findings == ()
    (found,) = judged(whole, of_an_engine("base.weight", trained=("lora_A.weight",))).findings
    assert found.message.endswith("4 of 8 tensors not saved (module.lora_A.weight)")


def test_a_weight_that_was_trained_with_the_baseline_and_is_not_saved_is_lost() -> None:
    both = of_an_engine("lora_A.weight", "head.weight", trained=("lora_A.weight", "head.weight"))
    messages = [one.message for one in judged(both, of_an_engine("lora_A.weight", trained=("lora_A.weight",))).findings]
    assert any(one.endswith("4 of 8 tensors not saved (module.head.weight)") for one in messages)


def test_an_adapter_that_is_saved_with_the_embeddings_is_much_larger() -> None:
    adapter = SavedTensors(name="lora_A.weight", dtype="float32", shape=[8, 64], count=4, mean=0.1)
    table = SavedTensors(name="embed_tokens.weight", dtype="float32", shape=[2001, 64], count=1, mean=0.1)
    (found,) = judged(run(adapter), run(adapter, table)).findings
    assert (found.metric, found.message) == (
        "saved_numbers",
        "130,112 numbers of weights are saved, were 2,048 (embed_tokens.weight in addition)",
    )
    assert [one.kind for one in judged(run(adapter), run(adapter, table)).problems] == [ProblemKind.MORE]
    small = SavedTensors(name="inv_freq", dtype="float32", shape=[2000], count=1, mean=0.1)
    state = SavedTensors(name="optimizer.state.*.exp_avg", dtype="float32", shape=[2001, 64], count=1)
    assert judged(run(adapter), run(adapter, small, state)).findings == ()
    assert judged(run(table), run(table, adapter)).findings == ()  # a small share
