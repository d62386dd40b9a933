"""A program without DeepSpeed on gloo ranks against its own steps in plain PyTorch: sound training is right, whatever
divides the weights, and an injected fault is wrong and named."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.border.wire import Numerics  # noqa: E402
from dsregress.programs.watch.kept_steps import KeptSteps  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402
from tests.programs.truth.verdicts import assert_right  # noqa: E402
from tests.programs.truth.wraps import OF_DDP, OF_FSDP2, WRAPS  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

TRAIN = """
import contextlib, os, torch
import torch.distributed as dist
from torch import nn
if RANKS > 1:
    dist.init_process_group("nccl")
rank = int(os.environ.get("RANK", "0"))
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(12), nn.Linear(12, 36), nn.Linear(36, 12, bias=False)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norm(x)))))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.layers = nn.Embedding(17, 12), nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(12, 17, bias=False)
        self.scale = nn.Parameter(torch.ones(3, 5))
        self.head.weight = self.inner.weight

    def forward(self, ids, labels=None):
        hidden = self.inner(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.head(hidden) * self.scale.mean()
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten()) if labels is not None else None
        return {"loss": loss, "logits": logits}

model = Model()
WRAP
torch.manual_seed(1 + rank)
optimizer = OPTIMIZER
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
for step in range(5):
    for micro_batch in range(2):
        ids = torch.randint(17, (2, 7))
        FORWARD
        (loss / 2).backward()
    CLIP
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
"""

INSIDE = "loss = model(ids, labels=ids)['loss']"
OUTSIDE = "loss = model(ids)['logits'].float().pow(2).mean()"
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)"


def trained(
    folder: Path,
    wrap: str,
    *,
    fault: str = "",
    forward: str = INSIDE,
    clip: str = CLIP,
    optimizer: str = "torch.optim.AdamW(model.parameters(), lr=1e-3)",
) -> Numerics:
    ranks = 1 if wrap == "one process" else 2
    if wrap.startswith("FSDP1") and clip == CLIP:
        clip = "model.clip_grad_norm_(0.05)"
    program = TRAIN
    words = {
        "WRAP": WRAPS[wrap] + "\n" + fault,
        "OPTIMIZER": optimizer,
        "FORWARD": forward,
        "CLIP": clip,
        "RANKS": str(ranks),
    }
    for word, meaning in words.items():
        program = program.replace(word, meaning)
    (folder / "train.py").write_text(program)
    line = "python train.py" if ranks == 1 else f"torchrun --nproc_per_node {ranks} train.py"
    numerics = passed(ran(folder, "cpu", ranks, line)).ranks[0].numerics
    assert numerics is not None
    return numerics


def figures(folder: Path) -> list[dict[str, dict[str, object]]]:
    """What is measured of each rank, but for seconds."""
    record = passed(ran(folder, "cpu", 2, "torchrun --nproc_per_node 2 train.py"))
    phases = [{name: asdict(reading) for name, reading in rank.phases.items()} for rank in record.ranks]
    for reading in (reading for of_rank in phases for reading in of_rank.values()):
        del reading["seconds"]
    return phases


def test_keeping_steps_moves_no_figure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(folder, "DDP")
    kept = figures(folder)
    monkeypatch.setattr(KeptSteps, "begin", lambda steps: None)
    assert figures(folder) == kept


@pytest.mark.parametrize("wrap", WRAPS)
def test_sound_training_is_right(folder: Path, wrap: str) -> None:
    numerics = trained(folder, wrap)
    assert_right(numerics)
    assert numerics.gradient_norm_error is not None


ACCUMULATED = f"model.require_backward_grad_sync = micro_batch == 1; {INSIDE}"  # as model.no_sync() does

TWICE = """
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids, labels=ids)['loss'] + model(ids)['logits'].float().pow(2).mean()"""

SCALED = """
    for weight in model.parameters():
        weight.grad.mul_(0.25)"""


@pytest.mark.parametrize(
    ("wrap", "how"),
    [
        ("DDP", {"forward": ACCUMULATED}),
        ("DDP", {"forward": TWICE, "clip": ""}),
        (
            "FSDP2",
            {"forward": OUTSIDE, "clip": "", "optimizer": "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)"},
        ),
        ("FSDP2", {"clip": SCALED}),
        (
            "FSDP1",
            {"clip": "", "optimizer": "torch.optim.Adam(model.parameters(), lr=1e-5, weight_decay=0.1, foreach=True)"},
        ),
        ("one process", {"forward": TWICE, "clip": SCALED + "; " + CLIP}),
    ],
    ids=[
        "gradients that are shared with the last micro-batch",
        "two calls in autocast, and no clipping",
        "a loss beside the model, and momentum",
        "gradients that the program scales",
        "small steps",
        "gradients that the program scales and clips",
    ],
)
def test_what_a_program_does_beside_its_model_is_no_fault(folder: Path, wrap: str, how: dict[str, str]) -> None:
    assert_right(trained(folder, wrap, **how))


SUM = "change = lambda name, gradient: 2 * gradient\n"
NINE_TENTHS = "change = lambda name, gradient: 0.9 * gradient if name == 'layers.0.up.weight' else gradient\n"
LOST = "change = lambda name, gradient: gradient * (1 - micro_batch)\n"
WRONG_COUNT = "change = lambda name, gradient: gradient / 2\n"


@pytest.mark.parametrize(
    "wrap", ["one process", "DDP", "FSDP2", pytest.param("FSDP2 in bf16", marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (SUM, r"the gradient of .* in step \d is 2(\.\d+)? times plain PyTorch's"),
        (WRONG_COUNT, r"the gradient of .* in step \d is 0\.(5|49\d) times plain PyTorch's"),
        (NINE_TENTHS, r"the gradient of layers.0.up.weight in step \d is 0.(9|89\d) times plain PyTorch's"),
        (LOST, r"the gradient of .* in step \d is "),
    ],
    ids=["a sum", "divided by the wrong count", "one layer's gradient x 0.9", "one micro-batch lost"],
)
def test_a_fault_in_the_gradient_is_named(folder: Path, wrap: str, fault: str, said: str) -> None:
    numerics = trained(folder, wrap, fault=fault + (OF_FSDP2 if wrap.startswith("FSDP2") else OF_DDP))
    assert numerics.parameter_error is not None, numerics.note
    assert numerics.parameter_error > 1
    assert re.match(said, numerics.gradient_apart)
    assert ("only CPU ranks may have it" in numerics.note) == (fault == SUM and wrap.startswith("FSDP2"))


NOT_SHARED = """
nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model.module, ["layers.0.up.weight"])
model = nn.parallel.DistributedDataParallel(model.module)
model.parameters_to_ignore = set()
"""
WRONG_NORM = """
from torch.nn.utils import clip_grad
total = clip_grad._get_total_norm
clip_grad._get_total_norm = lambda tensors, *more: total(list(tensors)[1:], *more)
"""
NOT_CLIPPED = """
from torch.nn.utils import clip_grad
clip_grad._clip_grads_with_norm_ = lambda *_: None
"""
NO_DECAY = """
from torch.optim import adam
together = adam._multi_tensor_adam
adam._multi_tensor_adam = lambda *given, **options: together(*given, **{**options, "weight_decay": 0.0})
"""


def test_a_parameter_that_ddp_does_not_share_is_named(folder: Path) -> None:
    numerics = trained(folder, "DDP", fault=NOT_SHARED)
    assert numerics.replicas_apart == 1
    assert "gradient of layers.0.up.weight in step" in numerics.gradient_apart


@pytest.mark.parametrize("wrap", ["DDP", "FSDP2"])
def test_a_norm_of_some_gradients_is_wrong(folder: Path, wrap: str) -> None:
    numerics = trained(folder, wrap, fault=WRONG_NORM)
    assert numerics.gradient_norm_error is not None
    assert numerics.gradient_norm_error > 10


@pytest.mark.parametrize("wrap", ["DDP", "FSDP2"])
def test_gradients_that_are_not_clipped_are_wrong(folder: Path, wrap: str) -> None:
    assert numerics_norm_is_right(numerics := trained(folder, wrap, fault=NOT_CLIPPED))
    assert "the clipped gradient of" in numerics.gradient_apart


def numerics_norm_is_right(numerics: Numerics) -> bool:
    return numerics.gradient_norm_error is not None and numerics.gradient_norm_error <= 1


@pytest.mark.parametrize("wrap", ["DDP", "FSDP2"])
def test_an_update_without_its_decay_is_wrong(folder: Path, wrap: str) -> None:
    optimizer = "torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.5, foreach=True)"
    numerics = trained(folder, wrap, fault=NO_DECAY, optimizer=optimizer)
    assert numerics.parameter_error is not None
    assert numerics.parameter_error > 1
    assert numerics.gradient_apart == ""
    assert " after step " in numerics.note


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"optimizer": "torch.optim.Adagrad(model.parameters())"}, "does not compute a step of Adagrad again"),
        ({"fault": "dist.all_reduce(torch.ones(1)); Model.forward = communicating"}, "communicates with other ranks"),
        (
            {"forward": f"{INSIDE} + weights[0].pow(2).sum()", "fault": "weights = list(model.parameters())"},
            "beside a call",
        ),
        ({"fault": "model.register_comm_hook(None, own)"}, "a hook of the program's own combines its gradients"),
    ],
    ids=["another optimizer", "collectives in the model", "weights beside the model", "its own way of sharing"],
)
def test_a_program_without_truth_says_why(folder: Path, how: dict[str, str], why: str) -> None:
    given = """
forward = Model.forward
def communicating(self, ids, labels=None):
    dist.all_reduce(torch.ones(1))
    return forward(self, ids, labels)
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook as own
"""
    numerics = trained(folder, "DDP", **{**how, "fault": given + how.get("fault", "")})
    assert why in numerics.note
    assert (numerics.true_losses, numerics.loss_error, numerics.parameter_error) == ([], None, None)
