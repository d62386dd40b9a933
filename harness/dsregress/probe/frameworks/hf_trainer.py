"""transformers' own `Trainer` over DeepSpeed: the way most people train, through accelerate's integration.

The job is Trainer's: its loop draws the batches, scales the loss, counts tokens, accumulates, clips and logs. It runs on
a separate thread (`SteppedTrainer`) and hands the measured calls, ``compute_loss`` and the engine's ``backward`` and
``step``, to the measuring thread, one at a time: meters and profilers see one thread only.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from dsregress.probe.framework import Meter
from dsregress.probe.frameworks import deepspeed as raw
from dsregress.probe.frameworks import deepspeed_config, deepspeed_engine, on_processors
from dsregress.probe.frameworks.deepspeed import stopwatch, world_size

__all__ = ["canary_surroundings", "ideal", "judge", "preload", "start", "stopwatch", "surroundings", "world_size"]

#: More steps than any run takes. Trainer needs to know its end when it begins.
_STEPS = 1_000_000
#: Left to transformers' integration to fill in from the training arguments, as its users do. Sizes that are "auto" in a
#: scenario reach it unchanged.
_AUTO = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping")


#: The package whose code counts as the framework's own (see `dsregress.probe.holders.sites`).
PACKAGE = "deepspeed"


def preload(device: str) -> None:
    """Import the modules that every cell needs."""
    raw.preload(device)
    import transformers.trainer  # noqa: F401


@contextlib.contextmanager
def surroundings(parameters: Mapping[str, object], device: str) -> Iterator[Meter]:
    """Enter what training on the device needs, and yield the meter."""
    with (
        raw.surroundings(parameters, device) as meter,
        on_processors.accelerated() if device == "cpu" else contextlib.nullcontext(),
    ):
        yield meter


@contextlib.contextmanager
def canary_surroundings(device: str) -> Iterator[str]:
    """Enter what a rank that is alone replaces, and yield the name of its device."""
    with raw.canary_surroundings(device) as name, on_processors.accelerated():
        yield name


def config(parameters: Mapping[str, object], hidden_size: int) -> dict[str, Any]:
    """Return the configuration that `TrainingArguments` gets as its ``deepspeed``."""
    settings = deepspeed_config.deepspeed_config({**parameters, "integration": "none"}, hidden_size)
    return {**settings, **dict.fromkeys(_AUTO, "auto"), "bf16": {"enabled": "auto"}}


def start(
    parameters: Mapping[str, object],
    device: str,
    shape: Mapping[str, object],
    measured: Callable[[], AbstractContextManager[None]],
) -> TrainerTraining:
    """Build the model and its Trainer, metered as init; see `dsregress.probe.framework.JobAdapter.start`. Raise ValueError
    if one process represents several ranks."""
    import torch
    import transformers

    from dsregress.probe.workloads import workload

    work = workload.pick(workload.Workload, parameters)
    if raw.join(parameters, device):
        raise ValueError(f"transformers' Trainer cannot stand for ranks that are not there: it needs {work.world_size}")
    model_config = workload.model_configuration(work, shape)
    with measured():
        arguments = transformers.TrainingArguments(
            output_dir=os.path.join(os.getcwd(), "trainer"),
            deepspeed=config(parameters, model_config.hidden_size),
            bf16=work.dtype == "bf16",
            per_device_train_batch_size=work.micro_batch_size,
            gradient_accumulation_steps=work.gradient_accumulation_steps,
            max_grad_norm=work.gradient_clipping or 0.0,
            learning_rate=work.learning_rate,
            lr_scheduler_type="constant",
            weight_decay=work.weight_decay,
            adam_beta1=workload.ADAM_BETAS[0],
            adam_beta2=workload.ADAM_BETAS[1],
            adam_epsilon=workload.ADAM_EPSILON,
            max_steps=_STEPS,
            save_strategy="no",
            logging_steps=1,
            logging_nan_inf_filter=False,
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
            dataloader_pin_memory=False,
        )
        model = workload.build_model(work, model_config, work.torch_dtype)  # under zero.Init, as the arguments arranged
        raw.fill(model)
        stepped = SteppedTrainer(_trainer(arguments, model, Samples(work, model_config.vocab_size)))
        stepped.begin()
    torch.manual_seed(0)
    return TrainerTraining(work, stepped, model_config)


def _trainer(arguments: object, model: object, samples: Samples) -> Any:
    import torch
    import transformers

    class InOrder(transformers.Trainer):  # type: ignore[misc]
        """Draws the samples as they are numbered, so that each rank's micro-batches are known beforehand."""

        def _get_train_sampler(self, *_: object, **__: object) -> object:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    return InOrder(model=model, args=arguments, train_dataset=samples)


class Samples:
    """The sequences of all ranks, numbered in the order in which accelerate distributes micro-batches over ranks."""

    def __init__(self, work: Any, vocabulary: int) -> None:
        from dsregress.probe.workloads import objectives

        self._work, self._vocabulary, self._objective = work, vocabulary, objectives.objective_of(work)

    def __len__(self) -> int:
        work = self._work
        return int(_STEPS * work.gradient_accumulation_steps * work.world_size * work.micro_batch_size)

    def __getitem__(self, number: int) -> dict[str, object]:
        work = self._work
        number, row = divmod(number, work.micro_batch_size)
        number, rank = divmod(number, work.world_size)
        step, micro_batch = divmod(number, work.gradient_accumulation_steps)
        data = self._objective.data(work, self._vocabulary, step, rank, micro_batch)
        return {"input_ids": data["ids"][row], "labels": data["labels"][row]}


class SteppedTrainer:
    """A Trainer whose loop runs on a separate thread and whose work is done on the caller's.

    The loop stops before each piece of work until `do` is called, and `do` returns when the loop has reached the next
    one: all allocations and releases of the loop itself have happened by then, in the same way each time.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.logged: dict[str, Any] = {}  #: what Trainer logged last
        self.next = ""  #: the kind of work that the loop waits for
        self._work: Callable[[], Any] = lambda: None
        self._requests: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def begin(self) -> None:
        """Start the loop, do the work of preparing it, and stop at the first forward."""
        trainer = self.trainer
        log = trainer.log

        def logging(logs: dict[str, Any], *arguments: object, **keywords: object) -> None:
            self.logged.update(logs)
            log(logs, *arguments, **keywords)

        trainer.log = logging
        trainer.accelerator.prepare = self._handed_over("prepare", trainer.accelerator.prepare)
        trainer.compute_loss = self._handed_over("forward", trainer.compute_loss)
        threading.Thread(target=self._loop, name="trainer", daemon=True).start()
        self._wait()
        while self.next == "prepare":
            self.do("prepare")
            engine = trainer.accelerator.deepspeed_engine_wrapped
            if engine is not None and not hasattr(engine.engine, "_dsregress"):
                engine.engine._dsregress = True
                engine.engine.backward = self._handed_over("backward", engine.engine.backward)
                engine.engine.step = self._handed_over("step", engine.engine.step)

    @property
    def engine(self) -> Any:
        """Return DeepSpeed's engine, without accelerate's wrapper."""
        return self.trainer.accelerator.deepspeed_engine_wrapped.engine

    def do(self, kind: str) -> None:
        """Do the work that the loop waits for, which must be of this kind, and let it go on to the next.

        Raise whatever the work or the loop raises, and RuntimeError if the loop waits for other work.
        """
        if self.next != kind:
            raise RuntimeError(f"the trainer wants to go on with {self.next}, not {kind}")
        self._answers.put(self._work())
        self._work = lambda: None  # it holds its arguments
        self._wait()

    def _wait(self) -> None:
        kind, what = self._requests.get()
        if isinstance(what, BaseException):
            raise what
        self.next, self._work = kind, what

    def _handed_over(self, kind: str, function: Callable[..., object]) -> Callable[..., object]:
        def hand_over(*arguments: object, **keywords: object) -> object:
            self._requests.put((kind, lambda: function(*arguments, **keywords)))
            return self._answers.get()

        return hand_over

    def _loop(self) -> None:
        try:
            self.trainer.train()
        except BaseException as error:  # of the trainer's thread: the thread that steps raises it
            self._requests.put(("", error))
        else:
            self._requests.put(("", RuntimeError("the trainer ended by itself")))


class TrainerTraining:
    """Implements `dsregress.probe.framework.Training`. Trainer's loop decides when the engine steps: after a micro-batch
    without a step of the loop, `step` does nothing."""

    def __init__(self, work: Any, stepped: SteppedTrainer, model_config: object) -> None:
        self.micro_batches = work.gradient_accumulation_steps
        self._stepped, self._model_config = stepped, model_config

    def next_batch(self) -> None:
        """Do nothing: the loop has drawn the batch already."""

    def forward(self, micro_batch: int) -> None:
        """Compute the loss of a micro-batch."""
        self._stepped.do("forward")

    def backward(self, micro_batch: int) -> None:
        """Compute the gradients of a micro-batch."""
        self._stepped.do("backward")

    def step(self, micro_batch: int) -> None:
        """Take the step of a micro-batch, which updates the weights after the last one."""
        if self._stepped.next == "step":
            self._stepped.do("step")

    def loss(self) -> float:
        """Return the loss as Trainer logged it, which is what people watch."""
        return float(self._stepped.logged["loss"])

    def gradient_norm(self) -> float | None:
        """Return the global gradient norm of the last step; None if the framework does not report it."""
        norm = self._stepped.engine.get_global_grad_norm()
        return None if norm is None else float(norm)

    def parameters(self) -> Mapping[str, Any]:
        """Return whole parameters by name; None if values mean nothing."""
        return deepspeed_engine.whole_parameters(self._stepped.engine.module)

    def configuration(self) -> dict[str, Any]:
        """Return the configuration in force, as dotted keys."""

        from dsregress.probe.workloads.flatten import flatten

        trainer = self._stepped.trainer
        settings = trainer.args.to_dict()
        folder = settings.pop("output_dir")  # of this run alone; older releases name the run after it
        own = flatten("trainer", {name: value for name, value in settings.items() if value != folder})
        return {
            **deepspeed_engine.effective_configuration(self._stepped.engine, self._model_config),
            **{name: value for name, value in own.items() if not name.endswith("_dir") and "deepspeed" not in name},
        }


def judge(*arguments: Any) -> None:
    """Judge the trained parameters by plain PyTorch's; see `dsregress.probe.framework`."""
    with _plain_models():
        raw.judge(*arguments)


def ideal(*arguments: Any) -> dict[str, dict[str, int]]:
    """Return what the ranks of the job must hold, as the raw adapter does."""
    with _plain_models():
        return raw.ideal(*arguments)


@contextlib.contextmanager
def _plain_models() -> Iterator[None]:
    """Leave the integration within the block, which lets transformers partition every model while the training arguments
    live."""
    from transformers.integrations import deepspeed as integration

    reference = integration._hf_deepspeed_config_weak_ref
    held = reference() if reference is not None else None
    integration.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        if held is not None:
            integration.set_hf_deepspeed_config(held)


def model(training: TrainerTraining) -> Any:
    """Return the model as the raw adapter does."""
    return training._stepped.engine.module


def holders(training: TrainerTraining) -> Iterator[tuple[str, str, object]]:
    """Yield the tensors that the engine holds as the raw adapter does."""
    from dsregress.probe.frameworks import zero_holders

    return zero_holders.held_tensors(training._stepped.engine)
