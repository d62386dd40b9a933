"""Several models that one program trains: which steps and phases are whose, and what they are called."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.border.wire import PhaseReading  # noqa: E402
from dsregress.programs.watch.trained_models import TrainedModels  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402


class Strategy:
    """As a trainer's helper, in whose own frame every model is just ``model``."""

    def step(self, models: TrainedModels, model: Any, optimizer: Any) -> None:
        models.stepped(optimizer, [], recorded=False)


class Trainer:
    def __init__(self) -> None:
        self.actor, self.critic = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)

        self._optimizers = [(model, torch.optim.SGD(model.parameters())) for model in (self.actor, self.critic)]

    def step(self, models: TrainedModels) -> None:
        for model, optimizer in self._optimizers:
            Strategy().step(models, model, optimizer)


def test_a_model_is_called_as_the_nearest_variable_that_holds_it_alone() -> None:
    models = TrainedModels()
    trainer = Trainer()
    for _ in range(2):
        trainer.step(models)
    assert list(models.by_name()) == ["actor", "critic"]


def test_a_caller_that_answers_to_any_name_is_no_module() -> None:
    """As the handle of a remote actor, whose every attribute is a method."""

    class Handle:
        def __getattr__(self, name: str) -> Any:
            return lambda: None

        def call(self, trainer: Trainer, models: TrainedModels) -> None:
            trainer.step(models)

    models, trainer = TrainedModels(), Trainer()
    for _ in range(2):
        Handle().call(trainer, models)
    assert list(models.by_name()) == ["actor", "critic"]


def test_looking_for_names_keeps_nothing_alive() -> None:
    """A frame keeps what it was asked for, as a function's logits: they would count as memory that training holds."""
    models, trainer = TrainedModels(), Trainer()
    logits = torch.zeros(4)
    for _ in range(2):
        trainer.step(models)
    held = weakref.ref(logits)
    del logits
    assert held() is None


def test_optimizers_of_parts_of_a_module_that_is_called_train_one_model() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    models = TrainedModels()
    models.called(model)
    for part in model:
        models.stepped(torch.optim.SGD(part.parameters()), [], recorded=False)
    assert len(models.models) == 1


def test_an_optimizer_for_each_copy_of_a_weight_is_one_optimizer() -> None:
    """As of weights whose optimizer is on the host: its tensors are no module's."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    copies = [torch.zeros_like(weight) for weight in model.parameters()]
    optimizers = [torch.optim.SGD([copy]) for copy in copies]
    models = TrainedModels()
    models.called(model)
    for _ in range(2):
        models.read("backward", PhaseReading(op_launches=1), None)
        for optimizer in optimizers:
            models.stepped(optimizer, [], recorded=False)
            models.read("forward", PhaseReading(), None)
    assert [one.stepper for one in models.models] == optimizers[:1]


def test_what_a_program_drops_is_kept_by_nobody() -> None:
    models = TrainedModels()
    gone = []
    for _ in range(2):
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters())
        models.called(model)
        models.stepped(optimizer, [], recorded=False)
        gone += [weakref.ref(model), weakref.ref(optimizer)]
        assert [one.stepper for one in models.models] == [optimizer]
        del model, optimizer
        gc.collect()
    assert [one() for one in gone] == [None] * 4


def test_a_model_is_the_same_under_an_optimizer_in_place_of_a_dropped_one() -> None:
    models, model = TrainedModels(), torch.nn.Linear(2, 2)
    models.called(model)
    models.stepped(torch.optim.SGD(model.parameters()), [], recorded=False)
    gc.collect()
    second = torch.optim.SGD(model.parameters())
    models.stepped(second, [], recorded=False)
    assert [one.stepper for one in models.models] == [second]


SWEEP = """
import gc, torch
class Done(Exception): ...
def trained(steps):
    model = torch.nn.Linear(1024, 1024, bias=False, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(1, 1024, device="cuda")).sum().backward()
        optimizer.step()
held = []
for _ in range(3):
    trained(1)
    gc.collect()
    held.append(torch.cuda.memory_allocated())
assert held[0] == held[1] == held[2], held
trained(5)
"""


@pytest.mark.usefixtures("surroundings")
def test_a_sweep_holds_one_model_at_a_time(folder: Path) -> None:
    (folder / "train.py").write_text(SWEEP)
    passed(ran(folder, "sim", 1, "python train.py", warmup_steps=4))


def test_a_phase_is_its_engines_and_else_that_of_the_model_that_steps_next() -> None:
    class Engine:
        def __init__(self) -> None:
            self.module = torch.nn.Linear(2, 2)

        def get_global_grad_norm(self) -> float:
            return 1.0

    actor, critic = Engine(), Engine()
    models = TrainedModels()
    for phase, engine, launches in (("forward", None, 1), ("backward", critic, 10), ("backward", actor, 100)):
        models.read(phase, PhaseReading(op_launches=launches), engine)
    models.lost([2.0], critic)
    models.lost([4.0, 6.0], actor)
    for engine in (actor, critic):
        models.stepped(engine, [], recorded=True)
    models.stepped(actor, [], recorded=False)
    named = models.by_name()
    launches = {name: {p: r.op_launches for p, r in model.phases.items()} for name, model in named.items()}
    assert launches == {"actor": {"forward": 1, "backward": 100}, "critic": {"backward": 10}}
    assert {name: model.numerics.losses for name, model in named.items()} == {"actor": [5.0], "critic": [2.0]}


CLIPPED = """
import torch
model = torch.nn.Linear(4, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    (model(torch.tensor([[3.0, 0.0, 4.0, 0.0]])).sum()).backward()
    {clip}
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize(
    ("clip", "norm"),
    [
        ("pass", 5.0),
        ("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", 5.0),
        ("torch.nn.utils.clip_grad_norm_([model.weight], 1.0); torch.nn.utils.clip_grad_norm_(model.weight, 1.0)", 5.0),
        ("torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)", 2**0.5),
    ],
)
def test_plain_pytorch_has_the_norm_of_its_gradients_before_they_are_clipped(
    folder: Path, clip: str, norm: float
) -> None:
    (folder / "train.py").write_text(CLIPPED.format(clip=clip))
    numbers = passed(ran(folder, "cpu", 1, "python train.py")).ranks[0].numerics
    assert numbers is not None
    assert numbers.gradient_norms == pytest.approx([norm] * 3)


FSDP2 = """
import torch
from torch.distributed.fsdp import fully_shard
torch.distributed.init_process_group("gloo")
model = torch.nn.Linear(4, 4, bias=False)
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.tensor([[3.0, 0.0, 4.0, 0.0]])).sum().backward()
    {clip}
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize("clip", ["pass", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"])
def test_the_norm_of_sharded_gradients_is_that_of_the_whole(folder: Path, clip: str) -> None:
    (folder / "train.py").write_text(FSDP2.format(clip=clip))
    numbers = passed(ran(folder, "cpu", 2, "torchrun --nproc_per_node 2 train.py")).ranks[0].numerics
    assert numbers is not None
    assert numbers.gradient_norms == pytest.approx([10.0] * 3)


FSDP1 = """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel
torch.distributed.init_process_group("gloo")
model = FullyShardedDataParallel(torch.nn.Linear(4, 4, bias=False), device_id=torch.device("cpu"), use_orig_params={own})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.tensor([[3.0, 0.0, 4.0, 0.0]])).sum().backward()
    {clip}
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(("clip", "norm"), [("pass", None), ("model.clip_grad_norm_(1.0)", 10.0)])
def test_fsdp_1_has_the_norm_that_its_own_clipping_finds(
    folder: Path, own: bool, clip: str, norm: float | None
) -> None:
    (folder / "train.py").write_text(FSDP1.format(own=own, clip=clip))
    numbers = passed(ran(folder, "cpu", 2, "torchrun --nproc_per_node 2 train.py")).ranks[0].numerics
    assert numbers is not None
    assert numbers.gradient_norms == [norm if norm is None else pytest.approx(norm)] * 3


GAN = """
import torch
generator, discriminator = torch.nn.Linear(8, 64), torch.nn.Linear(64, 1)
optimizers = [torch.optim.Adam(model.parameters()) for model in (discriminator, generator)]
while True:
    discriminator(generator(torch.randn(4, 8)).detach()).mean().backward()
    optimizers[0].step()
    discriminator(generator(torch.randn(4, 8))).pow(2).mean().backward()
    optimizers[1].step()
"""


@pytest.mark.usefixtures("surroundings")
def test_each_model_of_a_program_has_phases_and_numerics_of_its_own(folder: Path) -> None:
    (folder / "train.py").write_text(GAN)
    rank = passed(ran(folder, "cpu", 1, "python train.py")).ranks[0]
    own = [
        f"{phase} of {model}" for model in ("discriminator", "generator") for phase in ("forward", "backward", "step")
    ]
    assert list(rank.phases) == ["init", "forward", "backward", "step", *own]
    parts = [rank.phases[f"backward of {model}"].op_launches for model in ("discriminator", "generator")]
    assert rank.phases["backward"].op_launches == sum(parts)
    assert rank.numerics is None
    assert [len(numbers.losses) for numbers in rank.models.values()] == [3, 2]
    assert len({numbers.parameter_digest for numbers in rank.models.values()}) == 2


def test_an_engine_that_resumes_trains_the_model_from_there_on() -> None:
    class Engine:
        def __init__(self, outputs: int) -> None:
            self.module = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(outputs)))

        def get_global_grad_norm(self) -> float:
            return 1.0

    models, actor, critic, restarted = TrainedModels(), Engine(1), Engine(2), Engine(1)
    models.take_up(actor)  # before anything was trained: as most programs begin
    for engine in (actor, critic):
        models.lost([1.0], engine)
        models.stepped(engine, [], recorded=True)
    models.take_up(restarted)
    models.lost([2.0], restarted)
    models.stepped(restarted, [], recorded=True)
    assert [model.stepper for model in models.models] == [restarted, critic]
    assert models.models[0].numerics.losses == [1.0, 2.0]


RESUMING = """
import torch
def trained(model, optimizer, steps):
    for _ in range(steps):
        model(torch.ones(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
trained(model, optimizer, 1)
state = optimizer.state_dict()
{again}
trained(model, optimizer, 5)
"""


@pytest.mark.parametrize(
    "again",
    [
        "optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)",
        "model = torch.nn.Linear(8, 1)\noptimizer = torch.optim.AdamW(model.parameters(), lr=0.1)\n"
        "optimizer.load_state_dict(state)",
    ],
    ids=["of-the-same-model", "of-a-loaded-model"],
)
def test_an_optimizer_that_is_made_anew_trains_the_model_from_there_on(folder: Path, again: str) -> None:
    (folder / "train.py").write_text(RESUMING.format(again=again))
    record = passed(ran(folder, "cpu", 1, "python train.py"))
    assert not record.ranks[0].models
    numerics = record.ranks[0].numerics
    assert numerics is not None
    assert len(numerics.losses) == 3
