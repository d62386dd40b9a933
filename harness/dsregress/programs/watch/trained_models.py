"""Tells apart the models that one program trains: an actor and a critic, a generator and a discriminator.

Models step by an engine or an optimizer. An engine that loads a checkpoint, and whose parameters have the same names as
those of an earlier model, is that model's from then on, as after a restart. So is an optimizer that loads the state of
one with tensors of the same shapes, and one that steps all that another has stepped. A phase of the program belongs to
the engine whose call it is; if unknown, to the model that steps next, as plain PyTorch's calls do not name their model.
Optimizers of parts of one module that is called as a whole train one model.

A model's name is that of the variable, or of the attribute of ``self``, that holds it when it steps: the nearest one
that no other model has.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from dsregress.probe.border.wire import Numerics
from dsregress.programs.watch import stepper_facts
from vgpu.figures import PhaseReading

#: Packages whose variables are not the program's.
_NOT_THE_PROGRAMS = frozenset(
    ("torch", "deepspeed", "accelerate", "dsregress", "vgpu", "runpy", "contextlib", "functools")
)


class TrainedModel:
    """One model, identified by what steps it."""

    def __init__(self, stepper: Any, called: Sequence[Any]) -> None:
        self.stepper = stepper  #: the first one, if several optimizers train it
        self.phases: dict[str, PhaseReading] = {}  #: of the current round
        self.numerics = Numerics()
        trained = _parameters_of(stepper)
        wholes = [(module, held) for module in called if trained <= (held := _identities(module.parameters()))]
        whole, self._parameters = min(wholes, key=lambda one: len(one[1]), default=(None, trained))
        self.whole = whole  #: the module that is called as a whole; None if it is not known
        if whole is not None:
            self.numerics.dtype = stepper_facts.weight_dtypes(whole)
            self.numerics.trained = stepper_facts.trained_weights(whole)
        #: variables that hold it, the nearest first; looked for only if there are several models
        self.variables: list[str] = []

    def look_for_its_variables(self) -> None:
        """Look for variables that hold the model in the program's running calls, one of which is a step of this model."""
        if not self.variables:
            self.variables = list(dict.fromkeys(_holding(self.stepper, self._parameters)))

    def has(self, parameter: int | None) -> bool:
        """Return True if the parameter of this identity belongs to the model."""
        return parameter in self._parameters

    def goes_on_in(self, stepper: object) -> None:
        """Take another engine or optimizer as the one that trains the model from now on."""
        self.stepper = stepper
        self._parameters = _parameters_of(stepper)
        self.variables = []

    def is_taken_over_by(self, stepper: object) -> bool:
        """Return True if another optimizer steps all that the model's own has stepped."""
        are_optimizers = not (stepper_facts.is_engine(stepper) or stepper_facts.is_engine(self.stepper))
        return are_optimizers and _parameters_of(stepper) >= _parameters_of(self.stepper)

    def is_trained_by(self, stepper: object) -> bool:
        """Return True if the stepper is the model's, or steps any of its parameters."""
        return stepper is self.stepper or bool(_parameters_of(stepper) & self._parameters)


class TrainedModels:
    """The models that have stepped so far, in order, with the readings of their phases."""

    def __init__(self) -> None:
        self.models: list[TrainedModel] = []
        self._called: list[Any] = []  #: modules, each once
        self._readings: list[tuple[str, PhaseReading, Any]] = []  #: waiting for their model's step
        self._losses: list[tuple[float, Any]] = []
        self._clipped: list[tuple[set[int], float]] = []  #: identities of parameters, and their gradients' norm

    @property
    def leader(self) -> TrainedModel | None:
        """Return the model that stepped first, whose steps count; None before any step."""
        return self.models[0] if self.models else None

    @property
    def are_several(self) -> bool:
        """Return True if the program trains more than one model."""
        return len(self.models) > 1

    def called(self, module: torch.nn.Module) -> None:
        """Record that a module that trains was called, and not by another module."""
        if not any(module is known for known in self._called):
            self._called.append(module)

    def resumed(self, stepper: object) -> None:
        """Record that an engine has loaded a checkpoint, or an optimizer its state."""
        if any(model.stepper is stepper for model in self.models):
            return
        model = next((model for model in self.models if stepper_facts.is_same_model(model.stepper, stepper)), None)
        if model is not None:
            model.goes_on_in(stepper)
            self._called = []

    def train(self, module: torch.nn.Module) -> bool:
        """Return True if the module is or contains a model that has stepped, judged by its first trained parameter."""
        first = next((id(parameter) for parameter in module.parameters() if parameter.requires_grad), None)
        return any(model.has(first) for model in self.models)

    def read(self, phase: str, reading: PhaseReading, engine: object) -> None:
        """Keep the reading of a phase that has ended. ``engine`` is the one whose call it was, or None."""
        self._readings.append((phase, reading, engine))

    def lost(self, losses: Sequence[float], engine: object) -> None:
        """Keep the losses of a micro-batch."""
        self._losses += [(loss, engine) for loss in losses]

    def clipped(self, parameters: Iterable[object], norm: float) -> None:
        """Keep the norm that the gradients of these parameters had when they were clipped."""
        self._clipped.append((_identities(parameters), norm))

    def stepped(self, stepper: Any, rates: list[float], *, recorded: bool) -> TrainedModel:
        """Assign to the stepping model the readings that waited for this step, and the learning rates of the step. With
        ``recorded``, also the step's loss and gradient norm."""
        model = next((model for model in self.models if model.is_trained_by(stepper)), None)
        if model is None:
            model = TrainedModel(stepper, self._called)
            self.models.append(model)
        elif stepper is not model.stepper and model.is_taken_over_by(stepper):
            model.stepper = stepper
        if self.are_several:
            model.look_for_its_variables()
        losses = []
        waiting, self._readings = self._readings, []
        for phase, reading, engine in waiting:
            owner = model if engine is None else self._of_engine(engine)
            if owner is None:
                self._readings.append((phase, reading, engine))
            else:
                fold_reading(owner.phases, phase, reading)
        waiting_losses, self._losses = self._losses, []
        for loss, engine in waiting_losses:
            if engine is None or engine is stepper:
                losses.append(loss)
            else:
                self._losses.append((loss, engine))
        if stepper is model.stepper:
            model.numerics.learning_rates.append(rates)
            model.numerics.weight_bits.append(stepper_facts.weight_bits(stepper))
        if recorded and stepper is model.stepper:
            model.numerics.losses.append(stepper_facts.mean_loss(losses))
            model.numerics.gradient_norms.append(self._norm(stepper))
            if (scale := stepper_facts.loss_scale(stepper)) is not None:
                model.numerics.loss_scales.append(scale)
                model.numerics.skipped_steps = stepper.skipped_steps
        return model

    def new_round(self) -> None:
        """Discard the phases so far: they were a warm-up's."""
        for model in self.models:
            model.phases = {}

    def by_name(self) -> dict[str, TrainedModel]:
        """Return every model under a unique name."""
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

    def _norm(self, stepper: object) -> float | None:
        """Return the norm of the gradients of a step, before clipping if plain PyTorch clips them. A norm that is not
        finite belongs to a step that was skipped."""
        if stepper_facts.is_engine(stepper):
            return stepper_facts.gradient_norm(stepper)
        trained = _parameters_of(stepper)
        own = [norm for clipped, norm in self._clipped if clipped & trained and math.isfinite(norm)]
        self._clipped = [(clipped, norm) for clipped, norm in self._clipped if not clipped & trained]
        return own[0] if own else stepper_facts.gradient_norm(stepper)

    def _of_engine(self, engine: object) -> TrainedModel | None:
        return next((model for model in self.models if model.stepper is engine), None)


def fold_reading(phases: dict[str, PhaseReading], phase: str, reading: PhaseReading) -> None:
    """Add a reading to those of its phase."""
    phases[phase] = phases[phase].folded_with(reading) if phase in phases else reading


def _parameters_of(stepper: Any) -> set[int]:
    """Return the identities of the parameters that it trains."""
    if stepper_facts.is_engine(stepper):
        return _identities(stepper.module.parameters())
    return {id(parameter) for group in stepper.param_groups for parameter in group["params"]}


def _identities(parameters: Iterable[object]) -> set[int]:
    return {id(parameter) for parameter in parameters}


def _holding(stepper: object, parameters: set[int]) -> Iterator[str]:
    """Yield the names of the program's variables that hold the engine, or a module with exactly these parameters."""
    for name, value in _variables():
        if value is stepper:
            if stepper_facts.is_engine(stepper):
                yield name
        elif isinstance(value, torch.nn.Module) and _identities(value.parameters()) == parameters:
            yield name


def _variables() -> Iterator[tuple[str, object]]:
    """Yield the program's variables in reach of the running call, and the attributes of each ``self`` among them; those
    of the nearest call first."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in _NOT_THE_PROGRAMS:
            for name, value in _locals(frame):
                if name != "self":
                    yield name, value
                else:
                    yield from list(getattr(value, "__dict__", {}).items())
                    if isinstance(value, torch.nn.Module):  # others may have any attribute: a remote actor's handle
                        yield from list(value._modules.items())
        frame = frame.f_back


def _locals(frame: Any) -> list[tuple[str, object]]:
    """Return the local variables of a frame. Before Python 3.13, a function's frame keeps the copy of its variables that
    it returns, and thus what they hold, so the copy is cleared. A module's variables are not a copy."""
    found = frame.f_locals
    variables = list(found.items())
    if isinstance(found, dict) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        found.clear()
    return variables
