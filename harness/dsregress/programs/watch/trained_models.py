"""Tells apart the models that one program trains: an actor and a critic, a generator and a discriminator.

Models step by an engine or an optimizer. An engine that loads a checkpoint, and whose parameters have the same names as
those of an earlier model, is that model's from then on, as after a restart. So is an optimizer that loads the state of
one with tensors of the same shapes, and one that steps all that another has stepped. A phase of the program belongs to
the engine whose call it is; if unknown, to the model that steps next, as plain PyTorch's calls do not name their model.
Optimizers of parts of one module that is called as a whole train one model. So do those of tensors that are no module's,
which step one after the other without a backward between them: copies of weights on the host, with an optimizer each.

A model's name is that of the variable, or of the attribute of ``self``, that holds it when it steps: the nearest one
that no other model has.

Nothing here keeps a model or an optimizer alive: what a program drops is gone, as without us, and is no model of the
program's any more.
"""

from __future__ import annotations

import inspect
import itertools
import math
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from dsregress.probe.border.wire import NOTHING_MOVES, Numerics
from dsregress.programs.watch import stepper_facts
from dsregress.programs.watch.replicas import wrapper_of
from dsregress.programs.watch.start_weights import start_weights
from dsregress.programs.watch.still_weights import StillWeights
from vgpu.figures import PhaseReading

#: Packages whose variables are not the program's.
_NOT_THE_PROGRAMS = frozenset(
    ("torch", "deepspeed", "accelerate", "dsregress", "vgpu", "runpy", "contextlib", "functools")
)


class TrainedModel:
    """One model, identified by what steps it."""

    def __init__(self, stepper: Any, called: Sequence[Any]) -> None:
        self._stepper = weakref.ref(stepper)
        self.kind = type(stepper).__name__  #: of its stepper
        self.phases: dict[str, PhaseReading] = {}  #: of the current round
        self.numerics = Numerics()
        trained = _parameters_of(stepper)
        wholes = [(module, held) for module in called if trained <= (held := _identities(module.parameters()))]
        whole, self._parameters = min(wholes, key=lambda one: len(one[1]), default=(None, trained))
        self._whole = (lambda: None) if whole is None else weakref.ref(whole)
        self._names = stepper_facts.parameter_names(stepper)
        self._shapes = stepper_facts.stepped_shapes(stepper)
        if whole is not None:
            self.numerics.dtype = stepper_facts.weight_dtypes(whole)
            self.numerics.trained = stepper_facts.trained_weights(whole)
        self._still: StillWeights | None = None
        #: modules that are called, of which nothing is stepped while what is stepped gets no gradient
        self._beside: list[tuple[weakref.ref[torch.nn.Module], StillWeights]] | None = None
        self._wrapper: Callable[[], torch.nn.Module | None] = lambda: (
            None
        )  #: of ``whole``, which the program calls itself
        #: variables that hold it, the nearest first; looked for only if there are several models
        self.variables: list[str] = []

    @property
    def stepper(self) -> Any:
        """The engine or optimizer that trains it, the first one if there are several; None if the program dropped it."""
        return self._stepper()

    @property
    def whole(self) -> Any:
        """The module that is called as a whole; None if it is not known, or dropped."""
        return self._whole()

    @property
    def shared(self) -> torch.nn.Module | None:
        """The module that shares the gradients of its ranks: the whole, or DistributedDataParallel around it."""
        wrapper = self._wrapper()
        return self.whole if wrapper is None else wrapper

    def look_for_still_weights(self, called: Sequence[torch.nn.Module]) -> None:
        """Find out which of its weights move from now on, and what shares their gradients. Real ranks alone know."""
        if self.whole is None:
            if not stepper_facts.steps_without_gradient(self.stepper):
                self._beside = []
            elif self._beside is None:
                self._beside = [(weakref.ref(module), StillWeights(module)) for module in called]
        elif self._still is None:
            self._still = StillWeights(self.whole)
            if (wrapper := wrapper_of(self.whole)) is not None:
                self._wrapper = weakref.ref(wrapper)

    def keep_still_weights(self) -> None:
        """Record the weights that have not moved."""
        if self._still is not None and self.whole is not None:
            self.numerics.still = self._still.unmoved(self.whole)
        if names := self._all_still():
            self.numerics.broken[NOTHING_MOVES] = names

    def _all_still(self) -> list[str]:
        """Return the names of all trained weights if steps that should move them have moved none."""
        rates = self.numerics.learning_rates
        if stepper_facts.is_engine(self.stepper) or len(rates) < 2 or not all(one and one[0] > 0 for one in rates[1:]):
            return []
        if self._still is not None:
            are_moved = all(norm is not None and 0 < norm < math.inf for norm in self.numerics.gradient_norms)
            return self._still.all_unmoved(self.whole) if are_moved and self.whole is not None else []
        alive = [(module, still) for known, still in self._beside or () if (module := known()) is not None]
        names = [still.all_unmoved(module) for module, still in alive]
        return list(dict.fromkeys(itertools.chain(*names))) if names and all(names) else []

    @property
    def is_dropped(self) -> bool:
        """Return True if nothing is left of it. Until then, identities of its parameters are no other tensors'."""
        return self.stepper is None and self.whole is None

    def look_for_its_variables(self) -> None:
        """Look for variables that hold the model in the program's running calls, one of which is a step of this model."""
        if not self.variables:
            self.variables = list(dict.fromkeys(_holding(self.stepper, self._parameters)))

    @property
    def is_of_no_module(self) -> bool:
        """Return True if an optimizer trains it, and no module that was called as a whole has its parameters."""
        return not self._names and self.whole is None

    def is_held(self) -> bool:
        """Return True if a variable of the program's running calls holds a module of these parameters."""
        return next(_holding(self.stepper, self._parameters), None) is not None

    def has_part(self, optimizer: object) -> None:
        """Take an optimizer of further parameters of the model."""
        self._parameters |= _parameters_of(optimizer)

    def can_go_on_in(self, stepper: object) -> bool:
        """Return True if an engine's parameters have the names of those of the model's engine, or an optimizer's tensors the
        shapes of those of the model's optimizer."""
        if self._names:
            return self._names == stepper_facts.parameter_names(stepper)
        return bool(self._shapes) and self._shapes == stepper_facts.stepped_shapes(stepper)

    def has(self, parameter: int | None) -> bool:
        """Return True if the parameter of this identity belongs to the model."""
        return parameter in self._parameters

    def goes_on_in(self, stepper: object) -> None:
        """Take another engine or optimizer as the one that trains the model from now on."""
        self._stepper = weakref.ref(stepper)
        self._parameters = _parameters_of(stepper)
        self.variables = []

    def is_stepped_by(self, stepper: object) -> None:
        """Take an optimizer in place of one that was dropped, or all of whose parameters it steps."""
        own = self.stepper
        if own is stepper:
            return
        are_optimizers = not (stepper_facts.is_engine(stepper) or stepper_facts.is_engine(own))
        if own is None or (are_optimizers and _parameters_of(stepper) >= _parameters_of(own)):
            self._stepper = weakref.ref(stepper)

    def is_trained_by(self, stepper: object) -> bool:
        """Return True if the stepper is the model's, or steps any of its parameters."""
        if stepper is self.stepper:
            return True
        return not self.is_dropped and bool(_parameters_of(stepper) & self._parameters)


class _Owner:
    """The engine whose call something was, as far as it is known; ``engine`` is None once the program dropped it."""

    def __init__(self, engine: object) -> None:
        self.is_unknown = engine is None
        self._engine = (lambda: None) if engine is None else weakref.ref(engine)

    @property
    def engine(self) -> object:
        return self._engine()


class TrainedModels:
    """The models that have stepped so far, in order, with the readings of their phases."""

    def __init__(self, *, contents: bool = True) -> None:
        self.models: list[TrainedModel] = []
        self._contents = contents  #: whether weights have values
        self._starts: weakref.WeakKeyDictionary[torch.nn.Module, dict[str, list[float]]] = weakref.WeakKeyDictionary()
        self._called: list[weakref.ref[torch.nn.Module]] = []  #: modules, each once
        #: waiting for their model's step
        self._readings: list[tuple[str, PhaseReading, _Owner]] = []
        self._losses: list[tuple[float, _Owner]] = []
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
        self._called = [known for known in self._called if known() is not None]
        if not any(module is known() for known in self._called):
            self._called.append(weakref.ref(module))
            if self._contents and module not in self._starts:
                self._starts[module] = start_weights(module)

    def take_up(self, stepper: object) -> None:
        """Record that an engine has loaded a checkpoint, or an optimizer its state."""
        if any(model.stepper is stepper for model in self.models):
            return
        model = next((model for model in self.models if model.can_go_on_in(stepper)), None)
        if model is not None:
            model.goes_on_in(stepper)
            self._called = []

    def whole_of(self, stepper: object) -> torch.nn.Module | None:
        """Return the module that a stepper trains; None if it has not stepped yet, or it is not known."""
        return next((model.whole for model in self.models if model.stepper is stepper), None)

    def train(self, module: torch.nn.Module) -> bool:
        """Return True if the module is or contains a model that has stepped, judged by its first trained parameter."""
        first = next((id(parameter) for parameter in module.parameters() if parameter.requires_grad), None)
        return any(model.has(first) for model in self.models if not model.is_dropped)

    def read(self, phase: str, reading: PhaseReading, engine: object) -> None:
        """Keep the reading of a phase that has ended. ``engine`` is the one whose call it was, or None."""
        self._readings.append((phase, reading, _Owner(engine)))

    def lost(self, losses: Sequence[float], engine: object) -> None:
        """Keep the losses of a micro-batch."""
        self._losses += [(loss, _Owner(engine)) for loss in losses]

    def clipped(self, parameters: Iterable[object], norm: float) -> None:
        """Keep the norm that the gradients of these parameters had when they were clipped."""
        self._clipped.append((_identities(parameters), norm))

    def stepped(self, stepper: Any, rates: list[float] | None, *, recorded: bool) -> TrainedModel:
        """Assign to the stepping model the readings that waited for this step, and the learning rates of the step, if they
        count. With ``recorded``, also the step's loss and gradient norm."""
        self.models = [model for model in self.models if not model.is_dropped]
        model = next((model for model in self.models if model.is_trained_by(stepper)), None)
        if model is None:
            model = self._new_model(stepper)
        model.is_stepped_by(stepper)
        if self.are_several:
            model.look_for_its_variables()
        losses = []
        waiting, self._readings = self._readings, []
        for phase, reading, owner in waiting:
            own = model if owner.is_unknown else self._of_engine(owner.engine)
            if own is not None:
                fold_reading(own.phases, phase, reading)
            elif owner.engine is not None:
                self._readings.append((phase, reading, owner))
        waiting_losses, self._losses = self._losses, []
        for loss, owner in waiting_losses:
            if owner.is_unknown or owner.engine is stepper:
                losses.append(loss)
            elif owner.engine is not None:
                self._losses.append((loss, owner))
        if rates is not None and stepper is model.stepper:
            model.numerics.learning_rates.append(rates)
            model.numerics.weight_bits.append(stepper_facts.weight_bits(stepper))
        if recorded and stepper is model.stepper:
            model.look_for_still_weights([module for known in self._called if (module := known()) is not None])
            model.numerics.losses.append(stepper_facts.mean_loss(losses))
            model.numerics.gradient_norms.append(self._norm(stepper))
            if (scale := stepper_facts.loss_scale(stepper)) is not None:
                model.numerics.loss_scales.append(scale)
                model.numerics.skipped_steps = stepper.skipped_steps
        return model

    def _new_model(self, stepper: Any) -> TrainedModel:
        """Return the model of a stepper that is new: the last one, if the stepper is a further one of its parts."""
        model = TrainedModel(stepper, [module for known in self._called if (module := known()) is not None])
        if model.whole is not None:
            model.numerics.start = self._starts.get(model.whole, {})
        last = self.models[-1] if self.models else model
        follows = last is not model and not any(phase == "backward" for phase, _, _ in self._readings)
        if follows and last.is_of_no_module and model.is_of_no_module and not model.is_held():
            last.has_part(stepper)
            return last
        self.models.append(model)
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
            first = next(iter(own or model.variables), model.kind)
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
        return next((model for model in self.models if engine is not None and model.stepper is engine), None)


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
