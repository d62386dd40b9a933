"""Keeps the models apart that one program trains: an actor and a critic, a generator and a discriminator.

Whatever steps is an engine or an optimizer. An engine that loads a checkpoint, of parameters that a model before it had by
the same names, is that model's from then on, as after a restart. A phase of the program belongs to the engine whose call it
is; else to the model that steps next, as plain PyTorch's calls do not say whose they are. Optimizers of parts of one module
that is called as a whole train one model.

A model's name is that of the variable, or of the attribute of ``self``, that holds it where it steps: the nearest one that
no other model has.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from harness.probe.border.wire import Numerics, PhaseReading
from harness.probe.programs import facts

#: Packages whose variables are not the program's.
_NOT_THE_PROGRAMS = frozenset(("torch", "deepspeed", "accelerate", "harness", "runpy", "contextlib", "functools"))


class TrainedModel:
    """One model, by what steps it."""

    def __init__(self, stepper: Any, called: Sequence[Any]) -> None:
        self.stepper = stepper  #: the first one, where several optimizers train it
        self.phases: dict[str, PhaseReading] = {}  #: of the round at hand
        self.numerics = Numerics()
        trained = _parameters_of(stepper)
        wholes = [whole for module in called if trained <= (whole := _identities(module.parameters()))]
        self._parameters = min(wholes, key=len, default=trained)
        #: that hold it, the nearest first; looked for only where there are several models
        self.variables: list[str] = []

    def look_for_its_variables(self) -> None:
        """In the program's running calls, one of which is a step of this model."""
        if not self.variables:
            self.variables = list(dict.fromkeys(_holding(self.stepper, self._parameters)))

    def has(self, parameter: int | None) -> bool:
        """Whether the parameter of this identity is one of its."""
        return parameter in self._parameters

    def goes_on_in(self, engine: Any) -> None:
        """From here on another engine trains it."""
        self.stepper = engine
        self._parameters = _parameters_of(engine)
        self.variables = []

    def is_trained_by(self, stepper: Any) -> bool:
        return stepper is self.stepper or bool(_parameters_of(stepper) & self._parameters)


class TrainedModels:
    """Those that have stepped so far, in order, and what their phases were."""

    def __init__(self) -> None:
        self.models: list[TrainedModel] = []
        self._called: list[Any] = []  #: modules, each once
        self._readings: list[tuple[str, PhaseReading, Any]] = []  #: that wait for their model's step
        self._losses: list[tuple[float, Any]] = []
        self._clipped: list[tuple[set[int], float]] = []  #: identities of parameters, and what norm their gradients had

    @property
    def leader(self) -> TrainedModel | None:
        """The one that stepped first: its steps count."""
        return self.models[0] if self.models else None

    @property
    def are_several(self) -> bool:
        return len(self.models) > 1

    def called(self, module: Any) -> None:
        """A module that trains was called, not by another one."""
        if not any(module is known for known in self._called):
            self._called.append(module)

    def resumed(self, engine: Any) -> None:
        """An engine has loaded a checkpoint."""
        if any(model.stepper is engine for model in self.models):
            return
        model = next((model for model in self.models if facts.is_same_model(model.stepper, engine)), None)
        if model is not None:
            model.goes_on_in(engine)
            self._called = []

    def train(self, module: Any) -> bool:
        """Whether a module is, or has a part of, a model that has stepped. One trained parameter decides."""
        first = next((id(parameter) for parameter in module.parameters() if parameter.requires_grad), None)
        return any(model.has(first) for model in self.models)

    def read(self, phase: str, reading: PhaseReading, engine: Any) -> None:
        """A phase has ended. ``engine`` is that whose call it was, or None."""
        self._readings.append((phase, reading, engine))

    def lost(self, losses: Sequence[float], engine: Any) -> None:
        """Losses of a micro-batch."""
        self._losses += [(loss, engine) for loss in losses]

    def clipped(self, parameters: Iterable[Any], norm: float) -> None:
        """Gradients of these parameters had this norm when they were clipped."""
        self._clipped.append((_identities(parameters), norm))

    def stepped(self, stepper: Any, rates: list[float], *, recorded: bool) -> TrainedModel:
        """What has waited for this step is the model's, and so are the learning rates with which it was taken. With
        ``recorded``, so are the step's loss and gradient norm."""
        model = next((model for model in self.models if model.is_trained_by(stepper)), None)
        if model is None:
            model = TrainedModel(stepper, self._called)
            self.models.append(model)
        if self.are_several:
            model.look_for_its_variables()
        losses = []
        waiting, self._readings = self._readings, []
        for phase, reading, engine in waiting:
            owner = model if engine is None else self._of_engine(engine)
            if owner is None:
                self._readings.append((phase, reading, engine))
            else:
                fold(owner.phases, phase, reading)
        waiting_losses, self._losses = self._losses, []
        for loss, engine in waiting_losses:
            if engine is None or engine is stepper:
                losses.append(loss)
            else:
                self._losses.append((loss, engine))
        if stepper is model.stepper:
            model.numerics.learning_rates.append(rates)
            model.numerics.weight_bits.append(facts.weight_bits(stepper))
        if recorded and stepper is model.stepper:
            model.numerics.losses.append(facts.mean(losses))
            model.numerics.gradient_norms.append(self._norm(stepper))
            if (scale := facts.loss_scale(stepper)) is not None:
                model.numerics.loss_scales.append(scale)
                model.numerics.skipped_steps = stepper.skipped_steps
        return model

    def new_round(self) -> None:
        """Phases from here on count; those before were of a warm-up."""
        for model in self.models:
            model.phases = {}

    def by_name(self) -> dict[str, TrainedModel]:
        """Every model under a name that no other one has."""
        named: dict[str, TrainedModel] = {}
        for model in self.models:
            others = {name for other in self.models if other is not model for name in other.variables}
            own = [name for name in model.variables if name not in others]
            first = next(iter(own or model.variables), type(model.stepper).__name__)
            name, number = first, 2
            while name in named:
                name, number = f"{first} {number}", number + 1
            named[name] = model
        return named

    def _norm(self, stepper: Any) -> float | None:
        """Of the gradients of a step: before they were clipped, where plain PyTorch clips them. A norm that is not finite is
        that of a step which was not taken."""
        if facts.is_engine(stepper):
            return facts.gradient_norm(stepper)
        trained = _parameters_of(stepper)
        own = [norm for clipped, norm in self._clipped if clipped & trained and math.isfinite(norm)]
        self._clipped = [(clipped, norm) for clipped, norm in self._clipped if not clipped & trained]
        return own[0] if own else facts.gradient_norm(stepper)

    def _of_engine(self, engine: Any) -> TrainedModel | None:
        return next((model for model in self.models if model.stepper is engine), None)


def fold(phases: dict[str, PhaseReading], phase: str, reading: PhaseReading) -> None:
    """Adds a reading to those of its phase."""
    phases[phase] = phases[phase].folded_with(reading) if phase in phases else reading


def _parameters_of(stepper: Any) -> set[int]:
    """Identities of what it trains."""
    if facts.is_engine(stepper):
        return _identities(stepper.module.parameters())
    return {id(parameter) for group in stepper.param_groups for parameter in group["params"]}


def _identities(parameters: Iterable[Any]) -> set[int]:
    return {id(parameter) for parameter in parameters}


def _holding(stepper: Any, parameters: set[int]) -> Iterator[str]:
    """The program's variables that hold an engine, or a module with all of these parameters and no others."""
    for name, value in _variables():
        if value is stepper:
            if facts.is_engine(stepper):
                yield name
        elif isinstance(value, torch.nn.Module) and _identities(value.parameters()) == parameters:
            yield name


def _variables() -> Iterator[tuple[str, Any]]:
    """The program's variables that are in reach of the running call, and the attributes of each ``self`` there; of the
    nearest call first."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _NOT_THE_PROGRAMS:
            for name, value in _locals(frame):
                if name != "self":
                    yield name, value
                else:
                    yield from list(getattr(value, "__dict__", {}).items())
                    if isinstance(value, torch.nn.Module):  # another may answer to any name, as a remote actor's handle
                        yield from list(value._modules.items())
        frame = frame.f_back


def _locals(frame: Any) -> list[tuple[str, Any]]:
    """Before Python 3.13 a function's frame keeps the copy that it gives of its variables, and so what they hold: it is
    emptied again. A module's are its own."""
    found = frame.f_locals
    variables = list(found.items())
    if isinstance(found, dict) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        found.clear()
    return variables
