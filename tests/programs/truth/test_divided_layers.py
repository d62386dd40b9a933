"""Tensor parallelism on gloo ranks, with and without sequence parallelism and FSDP2, against plain PyTorch in one process:
sound training is right, and an injected fault is wrong and named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.border.wire import Numerics  # noqa: E402
from dsregress.probe.oracles import truth  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402
from tests.programs.truth.verdicts import assert_right  # noqa: E402
from tests.programs.truth.wraps import MLP, OF_FSDP2  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

TRAIN = (
    """
import os, torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module)
rank, pid = int(os.environ["RANK"]), os.getpid()
torch.manual_seed(0)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.n_heads, self.head_dim = 4, 4
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (of(x).unflatten(-1, HEADS).transpose(1, 2) for of in (self.query, self.key, self.value))
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(attended.transpose(1, 2).flatten(-2))

"""
    + MLP
    + """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.attention, self.after, self.mlp = nn.LayerNorm(16), Attention(), nn.LayerNorm(16), Mlp()

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.after(x))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.layers = nn.Embedding(18, 16), nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 18, bias=False)

    def forward(self, ids):
        hidden = self.inner(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(self.norm(hidden))

model = Model()
PLAN
layer = model.layers[1]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
FAULT
torch.manual_seed(1 + data_rank)
for step in range(5):
    for micro_batch in range(2):
        ids = torch.randint(18, (2, 8))
        logits = model(ids)
        (nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids.flatten()) / 2).backward()
        BACKWARD_ENDED
    CLIP
    optimizer.step()
    optimizer.zero_grad()
"""
)

OF_TP = """
plan = {"attention.query": ColwiseParallel(), "attention.key": ColwiseParallel(), "attention.value": ColwiseParallel(),
        "attention.out": RowwiseParallel(), "mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
for block in model.layers:
    parallelize_module(block, tp, plan)
"""

PLANS = {
    "tensor parallel": (2, "tp, data_rank = init_device_mesh('cuda', (2,)), 0" + OF_TP),
    "heads counted by rank": (
        2,
        "tp, data_rank = init_device_mesh('cuda', (2,)), 0" + OF_TP + "    block.attention.n_heads //= tp.size()\n",
    ),
    "sequence parallel": (
        2,
        """
tp, data_rank = init_device_mesh("cuda", (2,)), 0
plan = {"before": SequenceParallel(), "after": SequenceParallel(),
        "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "attention.query": ColwiseParallel(), "attention.key": ColwiseParallel(), "attention.value": ColwiseParallel(),
        "attention.out": RowwiseParallel(output_layouts=Shard(1)),
        "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
        "mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel(output_layouts=Shard(1))}
for block in model.layers:
    parallelize_module(block, tp, plan)
parallelize_module(model, tp, {
    "inner": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
""",
    ),
    "FSDP2 and tensor parallel": (
        4,
        """
from torch.distributed.fsdp import fully_shard
mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
tp, data_rank = mesh["tp"], mesh["dp"].get_local_rank()
"""
        + OF_TP
        + """    fully_shard(block, mesh=mesh["dp"])
fully_shard(model, mesh=mesh["dp"])
""",
    ),
}

CLIP_EACH = """
    from torch.nn.utils import clip_grad_norm_
    clip_grad_norm_([one for one in model.parameters() if getattr(one, "device_mesh", None) is not None], 1.0)"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)"


def trained(
    folder: Path, plan: str, *, fault: str = "", backward_ended: str = "", clip: str = "", heads: str = "(-1, 4)"
) -> Numerics:
    ranks, wrap = PLANS[plan]
    if plan == "heads counted by rank":
        heads = "(self.n_heads, self.head_dim)"
    program = TRAIN
    words = {"PLAN": wrap, "FAULT": fault, "BACKWARD_ENDED": backward_ended, "CLIP": clip, "HEADS": heads}
    for word, meaning in words.items():
        program = program.replace(word, meaning)
    (folder / "train.py").write_text(program)
    numerics = passed(ran(folder, "cpu", ranks, f"torchrun --nproc_per_node {ranks} train.py")).ranks[0].numerics
    assert numerics is not None
    return numerics


@pytest.mark.parametrize("plan", PLANS)
def test_sound_training_is_right(folder: Path, plan: str) -> None:
    assert_right(trained(folder, plan, clip=CLIP if plan == "sequence parallel" else ""))


#: Changes the gradients of weights before they are added up: ``change(name, gradient)``.
OF_WEIGHTS = """
held = []
for name, weight in model.named_parameters():
    node = weight.expand_as(weight).grad_fn.next_functions[0][0]
    node.register_prehook(lambda given, name=name: (change(name, given[0]),))
    held.append(node)
"""
NINE_TENTHS = "change = lambda name, gradient: 0.9 * gradient if name == 'layers.1.mlp.up.weight' else gradient\n"
LOST = "change = lambda name, gradient: gradient * (1 - micro_batch)\n"
OF_ONE_RANK = """
of_rank = 1.1 if rank == RANKS - 1 else 1
change = lambda name, gradient: of_rank * gradient if name == 'layers.1.mlp.down.weight' else gradient
"""

AT_NIGHT = ("sequence parallel", "FSDP2 and tensor parallel")
KINDS = ["tensor parallel", *(pytest.param(plan, marks=pytest.mark.nightly) for plan in AT_NIGHT)]


@pytest.mark.parametrize("plan", KINDS)
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (NINE_TENTHS, r"the gradient of layers.1.mlp.up.weight in step \d is 0.(9|89\d) times plain PyTorch's"),
        (LOST, r"the gradient of .* in step \d is "),
        (OF_ONE_RANK, r"the gradient of layers.1.mlp.down.weight in step \d is "),
    ],
    ids=["one layer's gradient x 0.9", "one micro-batch lost", "one shard's gradient x 1.1"],
)
def test_a_fault_in_the_gradient_is_named(folder: Path, plan: str, fault: str, said: str) -> None:
    more = OF_FSDP2 if plan.startswith("FSDP2") else OF_WEIGHTS
    numerics = trained(folder, plan, fault=fault.replace("RANKS", str(PLANS[plan][0])) + more)
    assert truth.worst(numerics) > 1, numerics.note
    assert re.match(said, numerics.gradient_apart), numerics.gradient_apart


STALE = """
def local(weight):
    return weight.to_local() if hasattr(weight, "to_local") else weight
kept = {}
def before(*_):
    kept["up"] = local(layer.mlp.up.weight).detach().clone()
def after(*_):
    if rank == RANKS - 1:
        with torch.no_grad():
            local(layer.mlp.up.weight).copy_(kept["up"])
optimizer.register_step_pre_hook(before)
optimizer.register_step_post_hook(after)
"""


@pytest.mark.parametrize("plan", KINDS)
def test_a_shard_that_is_not_stepped_is_named(folder: Path, plan: str) -> None:
    numerics = trained(folder, plan, fault=STALE.replace("RANKS", str(PLANS[plan][0])))
    assert numerics.parameter_error is not None, numerics.note
    assert numerics.parameter_error > 1
    assert "layers.1.mlp.up.weight after step" in numerics.note


#: Changes what a module computes on the last rank, in the program's own process.
FORWARD = """
def faulty(module, change):
    forward = module.forward
    module.forward = lambda x: change(forward(x)) if os.getpid() == pid and rank == RANKS - 1 else forward(x)
"""
SHARD = FORWARD + "faulty(layer.mlp.up, lambda out: 1.01 * out)"
BORDER = (
    FORWARD
    + """
def without_first(out):
    local = out.to_local().clone()
    local[:, 0] = 0
    return DTensor.from_local(local, out.device_mesh, out.placements)
faulty(layer.after, without_first)
"""
)
MASK = """
attend = nn.functional.scaled_dot_product_attention
calls = []
def wrong(q, k, v, is_causal):
    calls.append(0)
    is_wrong = os.getpid() == pid and rank == RANKS - 1 and len(calls) % 4 == 0
    return attend(q, k, v, is_causal=not is_wrong)
nn.functional.scaled_dot_product_attention = wrong
"""


UP = r"layers\.1\.mlp\.up, forward, micro-batch 1 of step 1, rank \d: its inputs are equal, its output is"
ATTENTION = (
    r"layers\.1\.attention, forward, micro-batch 2 of step 1, rank \d: its inputs are equal, what it gives "
    r"layers\.1\.attention\.out is"
)
AFTER = r"layers\.1\.after, forward, micro-batch 1 of step 1, rank 1: its inputs are equal, its output is"


@pytest.mark.parametrize(
    ("plan", "fault", "said"),
    [
        ("tensor parallel", SHARD, UP),
        ("FSDP2 and tensor parallel", MASK, ATTENTION),
        ("sequence parallel", BORDER, AFTER),
        *(pytest.param(plan, SHARD, UP, marks=pytest.mark.nightly) for plan in AT_NIGHT),
        *(pytest.param(plan, MASK, ATTENTION, marks=pytest.mark.nightly) for plan in ("tensor parallel", AT_NIGHT[0])),
    ],
)
def test_the_module_with_a_fault_is_named(folder: Path, plan: str, fault: str, said: str) -> None:
    ranks = PLANS[plan][0]
    numerics = trained(folder, plan, fault=fault.replace("RANKS", str(ranks)))
    assert re.match(said, numerics.first_module), (numerics.first_module, numerics.note)


NOT_JOINED = """
def local_alone(*_):
    for weight in (layer.before.weight, layer.after.weight):
        weight.grad = DTensor.from_local(weight.grad.to_local(), tp, [Replicate()])
optimizer.register_step_pre_hook(local_alone)
"""


def test_gradients_that_the_ranks_do_not_join_leave_their_replicas_apart(folder: Path) -> None:
    numerics = trained(folder, "sequence parallel", fault=NOT_JOINED)
    assert numerics.replicas_apart == 1


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("data_rank = rank", "which divide its layers, call their model with different data"),
        (
            "torch.manual_seed(rank); nn.init.normal_(layer.before.weight)",
            "should have the same layers.1.before.weight",
        ),
    ],
)
def test_ranks_that_should_be_alike_and_are_not_are_said(folder: Path, fault: str, why: str) -> None:
    numerics = trained(folder, "tensor parallel", fault=fault)
    assert numerics.note.startswith("no truth"), numerics.note
    assert why in numerics.note


OF_TRANSFORMERS = """
import torch, torch.distributed as dist
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
dist.init_process_group("nccl")
torch.manual_seed(0)
if dist.get_rank() == 0:
    LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2)).save_pretrained("small")
dist.barrier()
model = AutoModelForCausalLM.from_pretrained("small", tp_plan="auto", torch_dtype=torch.float32)
model.train()
held = []
WRONG = IS_WRONG
if WRONG:
    weight = model.model.layers[1].mlp.up_proj.weight
    held.append(weight.expand_as(weight).grad_fn.next_functions[0][0])
    held[0].register_prehook(lambda given: (0.9 * given[0],))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
torch.manual_seed(1)
for step in range(5):
    for micro_batch in range(2):
        ids = torch.randint(64, (2, 8))
        (model(input_ids=ids, labels=ids).loss / 2).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("is_wrong", [False, True], ids=["sound", "one layer's gradient x 0.9"])
def test_a_tensor_parallel_plan_of_transformers_has_a_truth(folder: Path, is_wrong: bool) -> None:
    pytest.importorskip("transformers")
    (folder / "train.py").write_text(OF_TRANSFORMERS.replace("IS_WRONG", str(is_wrong)))
    numerics = passed(ran(folder, "cpu", 2, "torchrun --nproc_per_node 2 train.py")).ranks[0].numerics
    assert numerics is not None
    assert not numerics.note.startswith("no truth"), numerics.note
    assert numerics.replicas_apart == 0
    said = r"the gradient of model.layers.1.mlp.up_proj.weight in step \d is 0.(9|89\d) times plain PyTorch's"
    assert bool(re.match(said, numerics.gradient_apart)) == is_wrong
    assert (truth.worst(numerics) > 1) == is_wrong, (numerics.note, numerics.gradient_apart)


LOSS_PARALLEL = """
parallelize_module(model.head, tp, ColwiseParallel(use_local_output=False))
from torch.distributed.tensor.parallel import loss_parallel
parallel = loss_parallel()
parallel.__enter__()
"""


def test_a_model_that_returns_a_divided_tensor_has_no_truth(folder: Path) -> None:
    numerics = trained(folder, "tensor parallel", fault=LOSS_PARALLEL)
    assert "its model returns a tensor that is divided among ranks" in numerics.note
