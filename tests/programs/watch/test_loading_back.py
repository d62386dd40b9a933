"""What a model saves of itself is loaded with the values that it had, or it is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.programs.cells import passed, ran

pytestmark = pytest.mark.usefixtures("surroundings")

#: A tiny library: a model saves itself as one of transformers does, and is loaded by its class.
LIBRARY = """
import os, torch
from safetensors.torch import load_file, save_file
from transformers import PretrainedConfig, PreTrainedModel

class Config(PretrainedConfig):
    model_type = "tiny-of-a-test"

class Model(PreTrainedModel):
    config_class = Config
    def __init__(self, config{more}):
        super().__init__(config)
        self.lin = torch.nn.Linear(8, 4)
        self.post_init()
    def _init_weights(self, module):
        pass
    def forward(self, x):
        return self.lin(x)
    @classmethod
    def from_pretrained(cls, folder):
        model = super().from_pretrained(folder)
        {fault}
        return model

model = Model(Config(){given})
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(6):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
model.save_pretrained("saved")
"""

RANDOM = "model.lin.weight.data.normal_(0, 2)"


@pytest.mark.parametrize(
    ("fault", "more", "given", "found"),
    [
        ("pass", "", "", False),
        (RANDOM, "", "", True),
        (RANDOM, ", width", ", 8", False),  # its class cannot be loaded by its folder alone
    ],
)
def test_weights_that_are_loaded_with_other_values_are_seen(
    fault: str, more: str, given: str, found: bool, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(LIBRARY.format(fault=fault, more=more, given=given))
    (rank,) = passed(ran(tmp_path, "cpu", 1, "python train.py")).ranks
    assert [text.partition(":")[0] for text in rank.loaded_otherwise] == ["lin.weight"] * found


@pytest.mark.parametrize(
    ("fault", "last", "said"),
    [
        ("model.scale = 3.0", "", "the same weights: its outputs for the same rows are 200% apart from those before"),
        ("model.scale = 1.02", "", ""),
        (
            "model.lin.weight.data = model.lin.weight.data.flip(0)",
            "",
            "lin.weight: other values are loaded than were saved, of the same mean",
        ),
        ("model.scale = 3.0", "model.lin.weight.data.mul_(1.001)", ""),  # trained on since: nothing is known
        ("model.scale = 3.0", "Model.forward = lambda self, x: x.new_ones(1) * len(kept.append(1) or kept)", ""),
        ("pass", "model.forward = lambda x: 2 * Model.forward(model, x)", ""),  # a trainer's, for mixed precision
    ],
)
def test_what_comes_out_otherwise_of_the_same_weights_is_seen(fault: str, last: str, said: str, tmp_path: Path) -> None:
    library = LIBRARY.replace("return self.lin(x)", "return self.lin(x) * getattr(self, 'scale', 1.0)")
    script = "kept = []\n" + library.format(fault=fault, more="", given="") + last
    (tmp_path / "train.py").write_text(script)
    (rank,) = passed(ran(tmp_path, "cpu", 1, "python train.py")).ranks
    assert rank.loaded_otherwise == [said] * bool(said)


@pytest.mark.parametrize(("more", "is_seen"), [("", True), ("torch.distributed.all_reduce(x.detach().clone())", False)])
def test_with_other_ranks_a_call_that_needs_none_of_them_is_repeated(more: str, is_seen: bool, tmp_path: Path) -> None:
    library = LIBRARY.replace("return self.lin(x)", f"{more}\n        return self.lin(x) * getattr(self, 'scale', 1.0)")
    library = library.replace("optimizer =", "wrapped = torch.nn.parallel.DistributedDataParallel(model)\noptimizer =")
    library = library.replace("    model(torch", "    wrapped(torch")
    start = "import torch\ntorch.distributed.init_process_group('gloo')\n"
    (tmp_path / "train.py").write_text(start + library.format(fault="model.scale = 3.0", more="", given=""))
    ranks = passed(ran(tmp_path, "cpu", 2, "torchrun --nproc_per_node 2 train.py")).ranks
    said = ["the same weights: its outputs for the same rows are 200% apart from those before"]
    assert [rank.loaded_otherwise for rank in ranks] == [said * is_seen, []]


ADAPTER = """
import torch
from peft import LoraConfig, get_peft_model, peft_model

class Base(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)
    def forward(self, x):
        return self.lin(x)
    def prepare_inputs_for_generation(self, *args, **kwargs):
        pass

loads = peft_model.PeftModel.load_adapter
def forgetful(self, *args, **kwargs):
    return None
if {fault}:
    peft_model.PeftModel.load_adapter = forgetful
model = get_peft_model(Base(), LoraConfig(r=2, target_modules=["lin"], init_lora_weights=False))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(6):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
model.save_pretrained("adapter")
"""


@pytest.mark.parametrize("fault", [False, True])
def test_an_adapter_that_is_not_loaded_as_it_was_saved_is_seen(fault: bool, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ADAPTER.format(fault=fault))
    (rank,) = passed(ran(tmp_path, "cpu", 1, "python train.py")).ranks
    assert bool(rank.loaded_otherwise) is fault


def test_what_only_all_ranks_together_load_is_not_loaded_by_one(tmp_path: Path) -> None:
    """As under ZeRO-3, where each weight of a new model is sent by one rank to the others."""
    together = "torch.distributed.broadcast(model.lin.weight.data, 0)"
    start = "import torch\ntorch.distributed.init_process_group('gloo')\n"
    program = start + LIBRARY.format(fault=together, more="", given="")
    (tmp_path / "train.py").write_text(program)
    ranks = passed(ran(tmp_path, "cpu", 2, "torchrun --nproc_per_node 2 train.py")).ranks
    assert [rank.loaded_otherwise for rank in ranks] == [[], []]


WRAPPED = """
import torch
from transformers import PretrainedConfig, PreTrainedModel

class Config(PretrainedConfig):
    model_type = "tiny-of-a-test"

class Model(PreTrainedModel):
    config_class = Config
    def __init__(self, config):
        super().__init__(config)
        self.lin = torch.nn.Linear(8, 4)
        self.out = torch.nn.Linear(4, 4)
        self.post_init()
    def _init_weights(self, module):
        pass
    def forward(self, x):
        return self.out(self.lin(x))

class Adapted(torch.nn.Module):
    def __init__(self, base_layer):
        super().__init__()
        self.base_layer = base_layer.requires_grad_(False)
        self.scale = torch.nn.Parameter(torch.full((4,), 0.5))
    def forward(self, x):
        return self.base_layer(x) * self.scale

model = Model(Config())
model.save_pretrained("base")
model.requires_grad_(False)
model.lin = Adapted(model.lin)
optimizer = torch.optim.SGD([model.lin.scale], lr=1e-3)
for step in range(6):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_base_model_that_gets_an_adapter_once_it_is_saved_is_not_held_to_what_comes_out_then(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "train.py").write_text(WRAPPED)
    assert passed(ran(tmp_path / "mine", "cpu", 1, "python train.py")).ranks[0].loaded_otherwise == []
