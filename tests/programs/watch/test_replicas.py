"""Replicas of DistributedDataParallel have the same weights after a step; where a rank has others, training is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.programs.cells import passed, ran  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

PROGRAM = """
import contextlib, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 4).to("cuda"), device_ids=[rank])
HOOK
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(6):
    data = torch.randn((2, 8), generator=torch.Generator().manual_seed(10 * step + rank)).to("cuda")
    with SYNCED:
        model(data).pow(2).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

OWN_WAY = """
def kept(state, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future

model.register_comm_hook(None, kept)
"""


def apart(folder: Path, *, synced: str = "contextlib.nullcontext()", hook: str = "") -> int:
    """Ranks whose weights are not the first one's, if a step is taken within ``synced``."""
    (folder / "train.py").write_text(PROGRAM.replace("SYNCED", synced).replace("HOOK", hook))
    rank = passed(ran(folder, "cpu", 2, "torchrun --nproc_per_node 2 train.py", warmup_steps=1)).ranks[0]
    assert rank.numerics is not None
    assert bool(rank.numerics.apart_in) == bool(rank.numerics.replicas_apart)
    return rank.numerics.replicas_apart


def test_replicas_that_share_their_gradients_are_equal(folder: Path) -> None:
    assert apart(folder) == 0


@pytest.mark.parametrize(
    "fault",
    ["model.no_sync()", "model.no_sync() if step == 1 else contextlib.nullcontext()"],
    ids=["no gradient is shared", "that of one step is not"],
)
def test_a_gradient_that_is_not_shared_leaves_them_apart(fault: str, folder: Path) -> None:
    assert apart(folder, synced=fault) == 1


def test_a_programs_own_way_of_combining_gradients_may_keep_them_apart(folder: Path) -> None:
    assert apart(folder, hook=OWN_WAY) == 0


def test_a_model_that_is_called_without_its_wrapper_is_left_apart(folder: Path) -> None:
    program = PROGRAM.replace("SYNCED", "contextlib.nullcontext()").replace(
        "HOOK", "wrapper, model = model, model.module"
    )
    (folder / "train.py").write_text(program)
    numerics = passed(ran(folder, "cpu", 2, "torchrun --nproc_per_node 2 train.py")).ranks[0].numerics
    assert numerics is not None
    assert (numerics.replicas_apart, numerics.apart_in) == (1, ["weight", "bias"])


ENGINE = """
import torch, deepspeed
deepspeed.init_distributed()
torch.manual_seed(0)
config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": STAGE}}
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
torch.manual_seed(1 + engine.global_rank)
FAULT
for step in range(5):
    engine.backward(engine(torch.randn(2, 8)).pow(2).mean())
    engine.step()
"""
BIAS = """
step_of = engine.optimizer.step
def stepped(*given, **named):
    step_of(*given, **named)
    with torch.no_grad(): engine.module.bias += engine.global_rank
engine.optimizer.step = stepped
"""


@pytest.mark.parametrize("stage", [0, 1, 2, 3], ids="stage {}".format)
@pytest.mark.parametrize("fault", ["", BIAS], ids=["sound", "a bias of one rank"])
def test_the_replicas_of_an_engine_are_compared_unless_it_divides_weights(folder: Path, stage: int, fault: str) -> None:
    pytest.importorskip("deepspeed")
    if stage == 3 and fault:
        pytest.skip("ZeRO-3 has no replicas")
    (folder / "train.py").write_text(ENGINE.replace("STAGE", str(stage)).replace("FAULT", fault))
    numerics = passed(ran(folder, "cpu", 2, "deepspeed train.py")).ranks[0].numerics
    assert numerics is not None
    assert (numerics.replicas_apart, numerics.apart_in) == ((1, ["bias"]) if fault else (0, []))


DIVIDED = """
import torch, deepspeed
from transformers import LlamaConfig, LlamaForCausalLM
deepspeed.init_distributed()
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                     num_attention_heads=4, num_key_value_heads=2))
config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1}, "tensor_parallel": {"autotp_size": 2}}
model = deepspeed.tp_model_init(model, tp_size=2, dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
rank = torch.distributed.get_rank()
FAULT
torch.manual_seed(1)
for step in range(5):
    ids = torch.randint(64, (2, 8)).to(engine.device)
    engine.backward(engine(input_ids=ids, labels=ids).loss)
    engine.step()
"""
NORM = """
step_of = engine.optimizer.step
def stepped(*given, **named):
    step_of(*given, **named)
    with torch.no_grad(): engine.module.model.norm.weight += rank
engine.optimizer.step = stepped
"""


@pytest.mark.parametrize("fault", ["", NORM], ids=["sound", "a norm of one rank"])
def test_what_autotp_does_not_divide_is_compared_as_there_is_no_truth(folder: Path, fault: str) -> None:
    pytest.importorskip("transformers")
    if not hasattr(pytest.importorskip("deepspeed"), "tp_model_init"):
        pytest.skip("DeepSpeed has AutoTP for training since 0.16.4")
    (folder / "train.py").write_text(DIVIDED.replace("FAULT", fault))
    numerics = passed(ran(folder, "cpu", 2, "deepspeed train.py")).ranks[0].numerics
    assert numerics is not None
    assert "plain PyTorch has no tensor_parallel" in numerics.note
    assert numerics.replicas_apart == (1 if fault else 0)
    assert ("model.norm.weight" in numerics.apart_in) == bool(fault)
