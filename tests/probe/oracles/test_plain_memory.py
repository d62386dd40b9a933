"""The activations of the memory oracle: two shallow models tell what the whole one takes, to the byte."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from dsregress.probe.oracles import plain_memory  # noqa: E402
from dsregress.probe.workloads.workload import Workload  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 7,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512, "tie_word_embeddings": False,
    "max_position_embeddings": 2048,
}  # fmt: skip
QWEN = {**LLAMA, "model_type": "qwen2", "tie_word_embeddings": True}


@pytest.mark.parametrize("shape", [LLAMA, QWEN], ids=["llama", "qwen2"])
@pytest.mark.parametrize("checkpointing", ["none", "reentrant", "non_reentrant"])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_every_further_layer_adds_as_much_as_the_third(shape: dict, checkpointing: str, dtype: str) -> None:
    work = Workload(dtype=dtype, gradient_checkpointing=checkpointing, micro_batch_size=2)
    with TorchMeter("cpu") as meter:
        assert plain_memory.activations(work, shape, meter, "cpu") == plain_memory.whole_model_memory(
            work, shape, meter, "cpu"
        )


@pytest.mark.parametrize(
    "changes",
    [{"frozen": "layers.0"}, {"lora_rank": 4}, {"objective": "two_runs"}, {"objective": "two_backwards"}],
    ids=str,
)
def test_so_it_is_with_frozen_parameters_adapters_and_several_losses(changes: dict) -> None:
    work = Workload(gradient_checkpointing="non_reentrant", micro_batch_size=2, **changes)
    with TorchMeter("cpu") as meter:
        folded, whole = (
            plain_memory.activations(work, LLAMA, meter, "cpu"),
            plain_memory.whole_model_memory(work, LLAMA, meter, "cpu"),
        )
    assert folded == whole
    folded_sizes, sizes = plain_memory.model_sizes(work, LLAMA), plain_memory._uncached_sizes(work, LLAMA)
    assert sorted(folded_sizes.trained) == sorted(sizes.trained)


@pytest.mark.parametrize("shape", [LLAMA, QWEN], ids=["llama", "qwen2"])
def test_the_parameters_are_those_of_the_whole_model(shape: dict) -> None:
    folded, model = plain_memory.model_sizes(Workload(), shape), plain_memory._uncached_sizes(Workload(), shape)
    assert sorted(folded.numels) == sorted(model.numels)
    assert folded.largest_module == model.largest_module


def test_gradients_are_no_activations() -> None:
    """What backward takes does not grow with the parameters that it passes, once they are large."""
    work = Workload(gradient_checkpointing="none", sequence_length=8, micro_batch_size=1)
    wide = {**LLAMA, "intermediate_size": 64 * 176}
    with TorchMeter("cpu") as meter:
        taken = plain_memory.whole_model_memory(work, wide, meter, "cpu")
    assert taken.batch == 8 * 8
    assert taken.backward_peak < sum(
        plain_memory.model_sizes(work, wide).numels
    )  # all gradients together are twice this in bf16
