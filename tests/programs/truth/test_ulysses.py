"""DeepSpeed's sequence parallelism has a truth: each rank gathers all tokens, and keeps what it has of the output."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from dsregress.probe.border.wire import Numerics  # noqa: E402
from dsregress.probe.oracles import truth  # noqa: E402
from dsregress.programs.truth import ulysses  # noqa: E402
from dsregress.programs.truth.plain_settings import NoTruth, read_plain_settings  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402


def attention(module: Any, query: Any, key: Any, value: Any, mask: Any, **kwargs: Any) -> tuple[Any, None]:
    """As transformers': of shape (batch, heads, tokens, size), returns (batch, tokens, heads, size)."""
    by_position = kwargs["position_ids"][:, None, :, None] / 10
    out = torch.nn.functional.scaled_dot_product_attention(query, key + by_position, value, is_causal=True)
    return out.transpose(1, 2), None


def _attended_by_a_rank(rank: int, meeting: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.manual_seed(0)
    whole = [torch.randn(2, 4, 6, 8, requires_grad=True) for _ in range(3)]
    positions = torch.arange(6).repeat(2, 1)
    expected = attention(None, *whole, None, position_ids=positions)[0]
    gradient = torch.randn_like(expected)
    of_whole = torch.autograd.grad(expected, whole, gradient)

    own = [one.detach().chunk(2, 2)[rank].requires_grad_() for one in whole]
    of_transformers = types.SimpleNamespace(attn=attention, process_group=dist.group.WORLD)
    out, weights = ulysses._of_transformers(
        of_transformers, torch.nn.Identity(), *own, None, position_ids=positions.chunk(2, 1)[rank]
    )
    assert weights is None
    torch.testing.assert_close(out, expected.chunk(2, 1)[rank].flatten(2))
    found = torch.autograd.grad(out, own, gradient.chunk(2, 1)[rank].flatten(2))
    torch.testing.assert_close(found, tuple(one.chunk(2, 2)[rank] for one in of_whole))

    def local(query: Any, key: Any, value: Any) -> Any:  # of shape (batch, tokens, heads, size)
        return attention(None, *(one.transpose(1, 2) for one in (query, key, value)), None, position_ids=positions)[0]

    of_megatron = types.SimpleNamespace(local_attn=local, spg=dist.group.WORLD, gather_idx=1)
    out = ulysses._of_megatron(of_megatron, *(one.transpose(1, 2) for one in own), 0)
    torch.testing.assert_close(out, expected.chunk(2, 1)[rank])
    dist.destroy_process_group()


def test_each_rank_has_its_part_of_whole_attention_and_of_its_gradients(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_attended_by_a_rank, (str(tmp_path / "meeting"),), nprocs=2)


def test_what_divides_more_than_sequences_has_no_truth() -> None:
    of_sequences = types.SimpleNamespace(get_sequence_parallel_world_size=lambda: 2)
    assert ulysses.sequence_ranks(None) == 1
    assert ulysses.sequence_ranks(of_sequences) == 2
    of_layers = types.SimpleNamespace(
        get_sequence_parallel_world_size=lambda: 2, get_model_parallel_world_size=lambda: 2
    )
    with pytest.raises(NoTruth, match="a mesh that divides more than sequences"):
        ulysses.sequence_ranks(of_layers)


@pytest.mark.parametrize(
    ("zero", "averages"),
    [({"stage": 3}, True), ({"stage": 3, "reduce_scatter": False}, False), ({"stage": 2}, False), ({}, False)],
)
def test_stage_3_averages_over_the_parts_of_a_sequence_and_the_others_add_up(
    zero: dict[str, object], averages: bool
) -> None:
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": zero}
    assert read_plain_settings(config, 1).averages_sequences == averages


TRAIN = """
import os, torch, deepspeed, deepspeed.comm as dist
from torch import nn
from deepspeed.sequence.layer import DistributedAttention
deepspeed.init_distributed()
rank, ranks, pid = dist.get_rank(), dist.get_world_size(), os.getpid()
all_ranks = dist.new_group(list(range(ranks)))
alone = [dist.new_group([one]) for one in range(ranks)][rank]

class Groups:
    pass
for name, group in {"model": alone, "data": alone, "sequence": all_ranks, "sequence_data": all_ranks}.items():
    setattr(Groups, f"get_{name}_parallel_group", staticmethod(lambda group=group: group))
    setattr(Groups, f"get_{name}_parallel_world_size", staticmethod(lambda group=group: dist.get_world_size(group)))
    setattr(Groups, f"get_{name}_parallel_rank", staticmethod(lambda group=group: dist.get_rank(group)))

class Local(nn.Module):
    def forward(self, q, k, v):
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.mixed, self.head = nn.Embedding(32, 16), nn.Linear(16, 48), nn.Linear(16, 32)
        self.attention = DistributedAttention(Local(), all_ranks, 2, 1)

    def forward(self, ids):
        hidden = self.inner(ids)
        q, k, v = (one.unflatten(-1, (4, 4)) for one in self.mixed(hidden).chunk(3, -1))
        return self.head(hidden + self.attention(q, k, v, 0).flatten(-2))

torch.manual_seed(0)
model = Model()
SEEDED
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), mpu=Groups(), config={
    "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.5, "zero_optimization": {"stage": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}})
torch.manual_seed(1)
for step in range(5):
    ids = torch.randint(32, (2, 16))
    own, following = (one.chunk(ranks, 1)[rank].contiguous().to(engine.device) for one in (ids, ids.roll(-1, 1)))
    loss = nn.functional.cross_entropy(engine(own).flatten(0, 1).float(), following.flatten())
    engine.backward(loss)
    engine.step()
"""

#: The exchange of tokens for heads goes wrong on one rank: the values of two heads are swapped.
SWAPPED = """
from deepspeed.sequence import layer
exchange = layer._SeqAllToAll.apply
def swapped(group, tensor, scatter, *more):
    out = exchange(group, tensor, scatter, *more)
    return out.flip(2) if rank == 1 and scatter == 2 else out
layer._SeqAllToAll.apply = swapped
"""


def trained(folder: Path, seeded: str) -> Numerics:
    pytest.importorskip("deepspeed")
    (folder / "train.py").write_text(TRAIN.replace("SEEDED", seeded))
    numerics = passed(ran(folder, "cpu", 2, "deepspeed --num_gpus 2 train.py")).ranks[0].numerics
    assert numerics is not None
    return numerics


@pytest.mark.usefixtures("surroundings")
def test_sound_training_is_right(folder: Path) -> None:
    numerics = trained(folder, "")
    assert not numerics.note.startswith("no truth"), numerics.note
    assert numerics.parameter_error is not None
    assert truth.worst(numerics) <= 1, (numerics.note, numerics.first_module)


@pytest.mark.usefixtures("surroundings")
def test_a_fault_of_the_exchange_is_found_in_the_attention(folder: Path) -> None:
    numerics = trained(folder, SWAPPED)
    assert truth.worst(numerics) > 1, numerics.note
    assert re.match(
        r"attention, forward, micro-batch 1 of step 1, each rank: its inputs are equal, its output",
        numerics.first_module,
    ), numerics.first_module
