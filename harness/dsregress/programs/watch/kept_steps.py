"""Keeps steps of training on one rank, so that plain PyTorch can compute the same in one process.

A step is kept whole: what the models were called with, the gradients that came back for what they returned, the gradients of
the weights after the backward, at clipping and at the step, the weights and the optimizer's state before it, and the weights
after it. It needs no collective: each rank writes the pieces that it has (`watch.weight_pieces`) into a folder that all
share. All of it is unmetered.
"""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.probe.border.faults import signature_of
from dsregress.programs.watch import kept_calls, stepper_facts
from dsregress.programs.watch.kept_calls import KeptCall
from dsregress.programs.watch.module_calls import ModuleCalls, when_left
from dsregress.programs.watch.module_values import ModuleWatch
from dsregress.programs.watch.sequence_parts import SequenceParts
from dsregress.programs.watch.weight_pieces import (
    GradientPlace,
    Piece,
    UnknownDivision,
    Weight,
    gradient_place,
    local_values,
    numbered_groups,
    weights_of,
)
from vgpu.whole_files import write_whole

#: Name of the folder in that of a run.
FOLDER = "kept"

#: Weights of more bytes are not kept: each step would write several times as many.
_MOST_BYTES = 2**30

#: One tensor for each weight that the optimizer steps, or None.
Snapshot = list[torch.Tensor | None]


@dataclass
class Clip:
    """One call of ``clip_grad_norm_``."""

    weights: list[int]
    limit: float
    before: Snapshot
    after: Snapshot = field(default_factory=list)


@dataclass
class KeptStep:
    """A step on one rank. Lists of weights are in the order of ``pieces``."""

    number: int
    ranks: int
    calls: list[KeptCall] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  #: of each backward
    backwards: int = 0  #: that have begun
    leftover: Snapshot = field(default_factory=list)  #: gradients before the first backward
    gradients: Snapshot = field(default_factory=list)  #: after the last backward
    clips: list[Clip] = field(default_factory=list)
    used: Snapshot = field(default_factory=list)  #: by the optimizer
    places: list[GradientPlace] = field(default_factory=list)  #: of the gradients
    pieces: list[tuple[Piece, ...]] = field(default_factory=list)
    stepped: list[int] = field(default_factory=list)  #: those that the optimizer steps
    groups: list[tuple[dict[str, Any], list[int]]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    before: list[torch.Tensor] = field(default_factory=list)
    after: list[torch.Tensor] = field(default_factory=list)
    optimizer: type | None = None


def _kept(event: Callable[..., None]) -> Callable[..., None]:
    """Return an unmetered event that gives up if it fails: whatever a program's tensors are, its measurement goes on."""

    @functools.wraps(event)
    def guarded(steps: KeptSteps, *args: object) -> None:
        if steps._hook is None:  # it is over: nothing of this may count as the program's work
            return
        try:
            with _disable_current_modes():
                event(steps, *args)
        except Exception as error:  # of whatever the program's tensors and classes raise
            steps.give_up(f"its steps cannot be kept: {signature_of(error)}")

    return guarded


class KeptSteps(ModuleCalls):
    """Keeps the steps of these numbers, until the last of them has ended, or until something shows that they cannot be
    computed again: ``why`` then says what."""

    def __init__(self, folder: Path, rank: int, wanted: Sequence[int]) -> None:
        self.folder, self.rank, self.wanted = folder / FOLDER, rank, tuple(wanted)
        self.why = ""
        self.roots: list[Any] = []
        self.weights: list[Weight] = []
        self.forwards: list[tuple[int, ...]] = []
        self._steps = 0
        self._step: KeptStep | None = None
        self._optimizer: Any = None
        self._inside = False
        self._sequences = SequenceParts()

    def begin(self) -> None:
        """Keep steps from now on."""
        super().begin()
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            self._sequences.begin()

    def end(self) -> None:
        """Keep nothing more."""
        super().end()
        self._sequences.end()

    def give_up(self, why: str) -> None:
        """Keep nothing more, for this reason, or for none that is to be told."""
        self.why = self.why or why
        self._step = None
        self.end()

    # -- events ------------------------------------------------------------------------------------------------------

    @_kept
    def _note_call(self, module: Any, inputs: object) -> None:
        if self._inside or not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:
            return
        if self._steps + 1 not in self.wanted or stepper_facts.is_engine(module):
            return
        if not any(parameter.requires_grad for parameter in module.parameters()):
            return
        if not any(module is root for root in self.roots) and not self._add_root(module):
            return
        self._inside = True
        number = next(number for number, root in enumerate(self.roots) if root is module)
        call = kept_calls.begin_call(number, module)
        if self._step is None:
            self._step = KeptStep(self._steps + 1, _ranks())
        step = self._step
        call.micro_batch, call.sequence = step.backwards + 1, self._sequences.part
        watch = ModuleWatch(module)
        call.modules = watch.values
        watch.begin()

        def left() -> None:
            watch.end()
            self._inside = False

        when_left(module, left, returned=functools.partial(self._returned, step, call))

    @_kept
    def _returned(self, step: KeptStep, call: KeptCall, args: object, kwargs: object, out: object) -> None:
        if kept_calls.holds_parts(out):
            return self.give_up("its model returns a tensor that is divided among ranks, as for loss_parallel")
        kept_calls.end_call(call, args, kwargs, out)
        if call.returned:
            step.calls.append(call)
        return None

    @_kept
    def backward_begins(self, loss: object, engine: object) -> None:
        """Called before an outermost backward."""
        if engine is not None:
            self.give_up("")
        if (step := self._step) is None:
            return None
        step.losses += stepper_facts.loss_values(loss)
        step.backwards += 1
        if kept_calls.follow_loss(loss) is not None:
            return self.give_up("its loss uses weights beside a call of its model")
        if not step.gradients:
            step.leftover = self._gradients()
        elif step.gradients and _is_broken(step.gradients) and not _is_any(self._gradients()):
            step.calls = [call for call in step.calls if not call.is_used]  # a step that was skipped
            step.losses, step.leftover, step.backwards = step.losses[-1:], [], 1
            for call in step.calls:
                call.micro_batch = 1
        return None

    @_kept
    def backward_ended(self) -> None:
        """Called after an outermost backward."""
        if self._step is not None:
            self._step.gradients = self._gradients()
            self._step.places = self._places()

    @_kept
    def clipping_begins(self, parameters: Sequence[Any], limit: float, norm_type: float) -> None:
        """Called before gradients are clipped."""
        if (step := self._step) is None:
            return None
        if norm_type != 2:
            return self.give_up(f"it clips gradients by their norm of order {norm_type}")
        wanted = {id(parameter) for parameter in parameters}
        numbers = [number for number, weight in enumerate(self.weights) if id(weight.parameter) in wanted]
        before = self._gradients()
        step.clips.append(Clip(numbers, float(limit), _same(before, step.gradients)))
        return None

    @_kept
    def clipped(self) -> None:
        """Called after gradients were clipped."""
        if self._step is not None and self._step.clips:
            self._step.clips[-1].after = self._gradients()

    @_kept
    def step_begins(self, optimizer: Any) -> None:
        """Called before the optimizer's step."""
        if (step := self._step) is None:
            return None
        if self._optimizer is not None and optimizer is not self._optimizer:
            return self.give_up("several optimizers step")
        self._optimizer = optimizer
        if not step.losses or not step.gradients:
            return self.give_up("what it steps by has no backward of a loss")
        groups = numbered_groups(optimizer, self.weights)
        if groups is None:
            return self.give_up("its optimizer steps weights that no model has that is called")
        step.groups = [(kept_calls.copied(dict(options)), numbers) for options, numbers in groups]
        step.stepped = sorted(number for _, numbers in groups for number in numbers)
        step.states = [_state(optimizer.state.get(weight.parameter, {})) for weight in self.weights]
        step.before = [local_values(weight.parameter) for weight in self.weights]
        step.optimizer = type(optimizer)
        step.pieces = [weight.pieces for weight in self.weights]
        used = self._gradients()
        if self._places() != step.places:
            return self.give_up("between its backward and its step, gradients are joined in a way of the program's own")
        step.used = _same(used, step.clips[-1].after if step.clips else step.gradients)
        return None

    @_kept
    def step_ended(self, optimizer: Any) -> None:
        """Called after the optimizer's step."""
        if optimizer is not self._optimizer and self._optimizer is not None:
            return self.give_up("several optimizers step")
        self._steps += 1
        if (step := self._step) is not None:
            step.after = [local_values(weight.parameter) for weight in self.weights]
            step.calls = [call for call in step.calls if call.is_used]
            self._write(step)
            self._step = None
        if self._steps >= max(self.wanted):
            self.end()
        return None

    # -- what is kept ------------------------------------------------------------------------------------------------

    def _add_root(self, module: Any) -> bool:
        """Find the weights of a model before its first call, while they are divided; return False if they cannot be
        kept."""
        self.roots.append(module)
        self.forwards.append(kept_calls.forward_of(module))
        try:
            known = {id(weight.parameter) for weight in self.weights}
            self.weights += [weight for weight in weights_of(module) if id(weight.parameter) not in known]
        except UnknownDivision as error:
            self.give_up(str(error))
            return False
        held = sum(weight.parameter.numel() * weight.parameter.element_size() for weight in self.weights)
        if held > _MOST_BYTES:
            self.give_up(f"its weights take {held / 2**30:.3g} GiB on a rank: too many to be trained again")
            return False
        if any(_has_hooks(weight.parameter) for weight in self.weights):
            self.give_up("it has hooks of its own on the gradients of weights")
            return False
        return True

    def _gradients(self) -> Snapshot:
        found = [weight.parameter.grad for weight in self.weights]
        return [None if gradient is None else local_values(gradient) for gradient in found]

    def _places(self) -> list[GradientPlace]:
        return [gradient_place(weight) for weight in self.weights]

    def _write(self, step: KeptStep) -> None:
        self.folder.mkdir(exist_ok=True)
        buffer = io.BytesIO()
        torch.save(step, buffer)
        write_whole(kept_file(self.folder, step.number, self.rank), buffer.getvalue())


def kept_file(folder: Path, step: int, rank: int) -> Path:
    """Return the file of a step on a rank."""
    return folder / f"step-{step}-rank-{rank}.pt"


def _ranks() -> int:
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def _state(state: Any) -> dict[str, Any]:
    return {name: local_values(value) if isinstance(value, torch.Tensor) else value for name, value in state.items()}


def _has_hooks(parameter: Any) -> bool:
    return bool(getattr(parameter, "_backward_hooks", None) or getattr(parameter, "_post_accumulate_grad_hooks", None))


def _same(one: Snapshot, earlier: Snapshot) -> Snapshot:
    """Return the earlier snapshot itself if it is equal, to the bit."""
    if len(one) == len(earlier) and all(_are_equal(a, b) for a, b in zip(one, earlier)):
        return earlier
    return one


def _are_equal(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    return one is other is None or (one is not None and other is not None and torch.equal(one, other))


def _is_any(snapshot: Snapshot) -> bool:
    return any(one is not None and bool(one.any()) for one in snapshot)


def _is_broken(snapshot: Snapshot) -> bool:
    return not all(one is None or bool(one.isfinite().all()) for one in snapshot)
