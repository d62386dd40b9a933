"""One rank of a program that trains again: without DeepSpeed, as it did before, or for the weights that it begins with.

Rank 0 leaves `FILE` in the repeat's folder (see `truth.program_repeats`).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dsregress.probe.framework import Meter
from dsregress.probe.oracles.reference_training import Trained
from dsregress.programs.launch import program_rank
from dsregress.programs.truth.plain_engine import DTYPES, PlainEngine
from dsregress.programs.truth.plain_settings import NoTruth
from dsregress.programs.truth.repeated_modules import RepeatedModules
from dsregress.programs.truth.without_deepspeed import without_deepspeed
from dsregress.programs.watch import step_watch, stepper_facts
from dsregress.programs.watch.measured_training import ProgramEnded
from dsregress.programs.world import random_state
from vgpu.replacing import Patches

FILE = "left.pt"


@dataclass(frozen=True)
class Plain:
    """The result of training without DeepSpeed."""

    trained: Trained
    dtype: str  #: that is computed in
    engine: int  #: which of those that the program makes
    random_states: list[str]  #: after each step
    folder: Path  #: of the repeat


@dataclass(frozen=True)
class Again:
    """The result of repeated training with DeepSpeed."""

    losses: list[float | None]
    gradient_norms: list[float | None]
    parameters: dict[str, torch.Tensor]


def read_plain_training(folder: Path) -> Plain:
    """Return what `train_plainly` left in the folder."""
    left = torch.load(folder / FILE, weights_only=True)
    return Plain(Trained(*left["trained"]), left["dtype"], left["engine"], left["random_states"], folder)


def read_repetition(folder: Path) -> Again:
    """Return what `train_again` left in the folder."""
    return Again(**torch.load(folder / FILE, weights_only=True))


def train_plainly(
    parameters: Mapping[str, object],
    source: str,
    rank: int,
    wanted_steps: int,
    perturbations: int | None,
    dtype: str,
    starts: str,
) -> None:
    """Run the program for so many steps, with weights perturbed by a rounding of ``dtype`` if ``perturbations`` is a
    seed, from the weights in the file ``starts`` if it is not empty. Raise what `run_program` raises, and NoTruth."""
    kinds = {name: kind for kind, name in DTYPES.items()}
    given = torch.load(starts, weights_only=True) if starts else None
    training = _PlainTraining(rank, wanted_steps)
    with without_deepspeed(perturbations, kinds.get(dtype), given):
        program_rank.run_program(parameters, source, training)


def train_again(parameters: Mapping[str, object], source: str, rank: int, wanted_steps: int, meter: Meter) -> None:
    """Run the program with DeepSpeed for so many steps, all but the last of them metered, as in its measurement."""
    program_rank.run_program(parameters, source, _Again(rank, wanted_steps, meter))


def record_beginning(parameters: Mapping[str, object], source: str, rank: int) -> None:
    """Run the program with DeepSpeed through its first step, and leave the whole weights that each engine begins with,
    by its number (see `without_deepspeed.Starts`)."""
    training = _Beginning(rank)
    with training.watched():
        program_rank.run_program(parameters, source, training)


class _Repeated:
    """A `step_watch.Listener` that measures nothing."""

    is_simulated = is_complete = False

    def __init__(self, rank: int, wanted_steps: int, engines: tuple[type, ...] | None) -> None:
        self._rank, self.wanted_steps, self.steps = rank, wanted_steps, 0
        self._folder = Path(os.getcwd())
        self._leader: Any = None  #: the engine that stepped first
        self.watch = step_watch.StepWatch(self, engines)

    def begin(self, check: Callable[[], None] = lambda: None) -> None:
        pass

    def end(self) -> None:
        pass

    def forward_begins(self, model: torch.nn.Module) -> None:
        pass

    def clipping_begins(self, parameters: Sequence[object], limit: float, norm_type: float) -> None:
        pass

    def clipped(self, parameters: Sequence[object], norm: object) -> None:
        pass

    def backward_begins(self, loss: object, engine: object) -> None:
        pass

    def backward_ended(self) -> None:
        pass

    def step_begins(self, stepper: object) -> None:
        pass

    def accumulated(self) -> None:
        pass

    def evaluates(self, model: torch.nn.Module) -> None:
        pass

    def resumed(self, stepper: object) -> None:
        """Take an engine or optimizer that loads a checkpoint as the leader that was interrupted (see `trained_models`)."""
        if self._leader is not None and stepper_facts.is_same_model(stepper, self._leader):
            self._leader = stepper

    def occasion_begins(self, phase: str) -> None:
        pass

    def occasion_ended(self, failed: bool) -> None:
        pass

    def program_ended(self) -> None:
        pass

    def saves(self, what: object, file: object) -> None:
        pass

    def draws(self, indices: object) -> None:
        pass

    def step_ended(self, stepper: object) -> None:
        if self._leader is None:
            self._leader = stepper
        if stepper is self._leader:
            self.steps += 1
            self.stepped()
            if self.steps == self.wanted_steps:
                self.leaves()
                if self._rank == 0:
                    torch.save(self.left(), self._folder / FILE)
                raise ProgramEnded
        else:
            self.another_stepped()

    def another_stepped(self) -> None:
        """Called after any other engine or optimizer stepped."""

    def stepped(self) -> None:
        """Called after the leading engine stepped."""

    def leaves(self) -> None:
        """Leave what each rank leaves."""

    def left(self) -> object:
        """Return what rank 0 leaves in `FILE`."""
        raise NotImplementedError


class _RepeatedTraining(_Repeated):
    """Keeps what the leader computes."""

    def __init__(self, rank: int, wanted_steps: int, engines: tuple[type, ...] | None) -> None:
        super().__init__(rank, wanted_steps, engines)
        self._micro_losses: list[tuple[float, Any]] = []  #: and whose, if known
        self._losses: list[float | None] = []
        self._norms: list[float | None] = []
        self._modules = RepeatedModules(locates=engines is not None)

    def begin(self, check: Callable[[], None] = lambda: None) -> None:
        self._modules.begin()

    def end(self) -> None:
        self._modules.end()

    def leaves(self) -> None:
        self._modules.leave(self._folder, self._rank)

    def backward_begins(self, loss: object, engine: object) -> None:
        self._modules.backward_begins()
        self._micro_losses += [(value, engine) for value in stepper_facts.loss_values(loss)]

    def another_stepped(self) -> None:
        """Drop losses without an engine: they were the other engine's (see `watch.trained_models`)."""
        self._micro_losses = [(value, engine) for value, engine in self._micro_losses if engine is not None]

    def stepped(self) -> None:
        own = [value for value, engine in self._micro_losses if engine is None or engine is self._leader]
        self._losses.append(stepper_facts.mean_loss(own))
        self._norms.append(stepper_facts.gradient_norm(self._leader))
        self._micro_losses = []
        self._modules.stepped()


class _PlainTraining(_RepeatedTraining):
    def __init__(self, rank: int, wanted_steps: int) -> None:
        super().__init__(rank, wanted_steps, (PlainEngine,))
        self._began: Any = None  #: weights at the first step, if an interruption made another engine
        self._random_states: list[str] = []

    def resumed(self, stepper: object) -> None:
        before = self._leader
        super().resumed(stepper)
        if before is not None and before is not self._leader:
            self._began = self._began or before.training_precision.start

    def stepped(self) -> None:
        if not isinstance(self._leader, PlainEngine):
            raise NoTruth("what steps first is no engine")
        super().stepped()
        self._random_states.append(random_state.random_digest())

    def left(self) -> object:
        mixed = self._leader.training_precision
        losses, norms = ([math.nan if v is None else v for v in values] for values in (self._losses, self._norms))
        return {
            "trained": [losses, norms, self._began or mixed.start, mixed.parameters],
            "dtype": DTYPES[self._leader.computes_in],
            "engine": self._leader.number,
            "random_states": self._random_states,
        }


class _Again(_RepeatedTraining):
    def __init__(self, rank: int, wanted_steps: int, meter: Meter) -> None:
        super().__init__(rank, wanted_steps, None)
        self._meter = meter
        self._metering = contextlib.ExitStack()

    def begin(self, check: Callable[[], None] = lambda: None) -> None:
        super().begin(check)
        self._metering.enter_context(self._meter)

    def end(self) -> None:
        self._metering.close()
        super().end()

    def stepped(self) -> None:
        super().stepped()
        if self.steps == self.wanted_steps - 1:
            self._metering.close()
        elif self.steps == self.wanted_steps:
            self._parameters = dict(stepper_facts.local_parameters(self._leader))

    def left(self) -> object:
        return {"losses": self._losses, "gradient_norms": self._norms, "parameters": self._parameters}


class _Beginning(_Repeated):
    def __init__(self, rank: int) -> None:
        super().__init__(rank, 1, None)
        self._engines: list[Any] = []
        self._starts: dict[int, dict[str, torch.Tensor]] = {}

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Record the engines that the program makes within the block, and the whole weights of each at its first call."""
        from deepspeed.runtime.engine import DeepSpeedEngine

        from dsregress.probe.frameworks import deepspeed_engine

        construct, forward = DeepSpeedEngine.__init__, DeepSpeedEngine.forward

        def constructed(engine: object, *args: object, **kwargs: object) -> None:
            self._engines.append(engine)
            construct(engine, *args, **kwargs)

        def called(engine: Any, *args: object, **kwargs: object) -> Any:
            number = next(number for number, other in enumerate(self._engines) if other is engine)
            if number not in self._starts:
                self._starts[number] = deepspeed_engine.whole_parameters(engine.module)
            return forward(engine, *args, **kwargs)

        with Patches("the weights that training begins with") as patches:
            patches.replace(DeepSpeedEngine, "__init__", constructed)
            patches.replace(DeepSpeedEngine, "forward", called)
            yield

    def left(self) -> object:
        return self._starts
