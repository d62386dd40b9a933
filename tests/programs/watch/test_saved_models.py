"""What a model saves of itself holds all that it trains, or it is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dsregress.programs.watch.saved_state import SavedState  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402


class Head(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 3)


def _saved(folder: Path, model: Any, tensors: dict[str, Any], file: str = "model.safetensors") -> list[str]:
    (folder / file).touch()
    state = SavedState(contents=True)
    state.add(tensors, folder / file)
    state.add(model, folder)
    return state.unsaved()


def _renamed(state: dict[str, Any]) -> dict[str, Any]:
    return {f"other.{number}": tensor for number, tensor in enumerate(state.values())}


def _split(state: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}.{number}": row for name, tensor in state.items() for number, row in enumerate(tensor)}


@pytest.mark.parametrize(
    "changed",
    [
        dict,
        _renamed,
        _split,
        lambda state: {name: tensor.bfloat16() for name, tensor in state.items()},
        lambda state: {**state, "more": torch.ones(3)},
        lambda state: {f"module.{name}": tensor for name, tensor in state.items()},
    ],
)
def test_all_weights_under_any_names_shapes_and_dtypes_are_saved(changed: Callable[..., Any], tmp_path: Path) -> None:
    model = Head()
    assert _saved(tmp_path, model, changed(model.state_dict())) == []


def test_a_trained_weight_that_is_not_in_the_files_is_named(tmp_path: Path) -> None:
    model = Head()
    without = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("head")}
    assert _saved(tmp_path, model, without) == ["head.bias: not saved", "head.weight: not saved"]
    model.head.requires_grad_(False)
    assert _saved(tmp_path, model, without) == []


def test_a_weight_that_is_saved_with_other_values_is_named(tmp_path: Path) -> None:
    model = Head()
    stale = {name: tensor * (2 if name == "head.weight" else 1) for name, tensor in model.state_dict().items()}
    (text,) = _saved(tmp_path, model, stale)
    assert text.startswith("head.weight: on average ")


class Adapted(torch.nn.Module):
    """As peft: a frozen model with an adapter and a head of its own, which is saved by shorter names."""

    def __init__(self) -> None:
        super().__init__()
        self.peft_config = {"default": None}
        self.base_model = torch.nn.ModuleDict(
            {
                "frozen": torch.nn.Linear(8, 8).requires_grad_(False),
                "lora_A": torch.nn.ModuleDict({"default": torch.nn.Linear(8, 2, bias=False)}),
                "score": torch.nn.ModuleDict(
                    {"modules_to_save": torch.nn.ModuleDict({"default": torch.nn.Linear(8, 3)})}
                ),
                "prompt_encoder": torch.nn.ModuleDict({"default": torch.nn.Embedding(4, 8)}),
            }
        )


def test_an_adapter_holds_what_is_trained_and_nothing_of_the_frozen_model(tmp_path: Path) -> None:
    model = Adapted()
    lora, head = model.base_model["lora_A"]["default"], model.base_model["score"]["modules_to_save"]["default"]
    whole = {
        "base_model.lora_A.weight": lora.weight,
        "base_model.score.weight": head.weight,
        "base_model.score.bias": head.bias,
        "prompt_embeddings": torch.ones(4, 8),
    }
    file = "adapter_model.safetensors"
    assert _saved(tmp_path, model, whole, file) == []
    del whole["base_model.score.weight"]
    del whole["prompt_embeddings"]
    assert _saved(tmp_path, model, whole, file) == ["base_model.score.modules_to_save.default.weight: not saved"]


def test_adapters_around_each_other_are_told_apart_though_files_leave_wrappers_out(tmp_path: Path) -> None:
    """As peft wraps a module once for each of its parameters that it adapts."""
    model = torch.nn.ModuleDict({"lora_B": Head().head, "base_layer": torch.nn.ModuleDict({"lora_B": Head().head})})
    torch.nn.init.constant_(model["lora_B"].weight, 3.0)
    assert _saved(tmp_path, model, dict(model.state_dict())) == []
    stale = {name: tensor * 9 for name, tensor in model.state_dict().items()}
    assert len(_saved(tmp_path, model, stale)) == 4


def test_a_file_that_the_program_writes_once_more_is_no_fault_of_what_saved_the_model(tmp_path: Path) -> None:
    model = Head()
    (file := tmp_path / "model.safetensors").touch()
    state = SavedState(contents=True)
    state.add(model.state_dict(), file)
    state.add(model, tmp_path)
    state.add({name: tensor * 20 for name, tensor in model.state_dict().items()}, file)
    assert state.unsaved() == []


def test_files_that_are_not_there_any_more_say_nothing(tmp_path: Path) -> None:
    """transformers writes an empty file where DeepSpeed saves the weights, and only rank 0 saves."""
    state = SavedState(contents=True)
    state.add({"other": torch.ones(2)}, tmp_path / "model.safetensors")
    state.add(Head(), tmp_path)
    assert state.unsaved() == []


TRAINER = """
import torch, transformers
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
sizes = dict(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
config = LlamaConfig(**sizes, tie_word_embeddings={tied})
model = LlamaForCausalLM(config)
{fault}
rows = [dict(input_ids=torch.arange(8), labels=torch.arange(8)) for _ in range(16)]
args = TrainingArguments("out", max_steps=4, save_steps=2, per_device_train_batch_size=1, report_to="none")
Trainer(model=model, args=args, train_dataset=rows).train()
model.save_pretrained("last")
"""

FAULT = """
whole = LlamaForCausalLM.state_dict
LlamaForCausalLM.state_dict = lambda self, *a, **k: {n: t for n, t in whole(self, *a, **k).items() if "down_proj" not in n}
"""


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize(
    ("tied", "fault", "unsaved"),
    [(False, "", []), (True, "", []), (False, FAULT, ["model.layers.*.mlp.down_proj.weight: not saved"])],
)
def test_a_trainer_that_saves_its_model_is_judged(tied: bool, fault: str, unsaved: list[str], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("deepspeed")
    (folder := tmp_path / "program").mkdir()
    (folder / "train.py").write_text(TRAINER.replace("{tied}", str(tied)).replace("{fault}", fault))
    (rank,) = passed(ran(folder, "cpu", 1, "python train.py", warmup_steps=1)).ranks
    assert rank.unsaved == unsaved
    assert rank.loaded_otherwise == []
    assert rank.saved_last
