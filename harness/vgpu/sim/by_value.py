"""Operators whose result depends on the values of tensors: values, shapes, choices and truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from vgpu.meters import operators
from vgpu.meters.ledger import DEVICE
from vgpu.sim import answers, geometry, host
from vgpu.sim.errors import SimulationError, caller, location
from vgpu.sim.known import EXPANDED_LIMIT_BYTES, UNKNOWN

#: Operators that choose among several -> the position of their dimension; None where it is the last.
_CHOICES: dict[str, int | None] = {"argmax": 1, "argmin": 1, "max": 1, "min": 1, "topk": 2, "multinomial": None}

_META = torch.device("meta")


class ByValue:
    """The plans of a `SimulationMode` for such operators: known values give the result that a GPU would give, unknown ones
    that of `vgpu.sim.answers`."""

    def __init__(self, mode: Any) -> None:
        self._mode = mode
        self._known = mode.known

    def plan(self, func: torch._ops.OpOverload) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], object] | None:
        """Return how to run an operator; None if values do not matter."""
        name = operators.traits(func).name
        if func is torch.ops.aten._ctc_loss.default:
            return None  # its lengths are numbers
        if name == "_ctc_loss_backward":
            return self.ctc_loss_backward
        if torch.Tag.data_dependent_output in func.tags:
            return self.value
        if torch.Tag.dynamic_output_shape in func.tags:
            return self.shape
        if not geometry.is_pure(func):
            return None
        if name in _CHOICES and func._overloadname in ("default", "dim"):
            return self.choice
        if name in answers.COMPARISONS or name in answers.FAULTS or name in answers.LOGIC:
            return self.truth
        if name in ("sum", "count_nonzero") and func._overloadname == "default":
            return self.how_many
        return None

    def item(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """Run ``tensor.item()``. For a tensor on the device, the host waits. Raise SimulationError if an unknown value has
        no answer."""
        tensor = args[0]
        contents = self._known.contents(tensor)
        if contents is tensor:
            return func(tensor)  # the host's, as it is
        self._mode.waits_for_device()
        self._mode.questions.ask(self._mode.flops)
        if contents is not None:
            return func(contents)
        self._mode.questions.assumed_floats += tensor.is_floating_point()
        return answers.scalar(tensor, self._mode.decided)

    def value(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
        """Run an operator whose result is a value: ``torch.equal``."""
        self._mode.waits_for_device()
        self._mode.questions.ask(self._mode.flops)
        contents = self._known.inputs(args)
        return answers.equal() if contents is UNKNOWN else func(*contents, **kwargs)

    def shape(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
        """Run an operator whose result has a shape that depends on values, as ``nonzero``. Raise SimulationError if they are
        unknown and the program gives no ``output_size``."""
        tensors = [*operators.tensors_in(args), *operators.tensors_in(tuple(kwargs.values()))]
        if not any(t.is_meta or self._mode.is_ghost(t) for t in tensors):
            return self._mode._compute(func, args, kwargs)
        if kwargs.get("output_size") is None:
            self._mode.waits_for_device()
        contents = self._known.inputs(args)
        if contents is UNKNOWN:
            if kwargs.get("output_size") is not None:
                return self._mode.compute_again(func, args, kwargs)
            raise SimulationError(
                f"{func} has no shape without values ({answers.describe(tensors[-1])}): run it on the CPU or a GPU. At "
                f"{location(caller())}"
            )
        value = func(*contents, **kwargs)
        self._mode.op_launches += operators.traits(func).launches
        return each_tensor(value, self.on_device)

    def ctc_loss_backward(
        self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]
    ) -> object:
        """Run the backward of CTC loss, which has no meta kernel."""
        log_probabilities = args[1]
        if not log_probabilities.is_meta:
            return self._mode._compute(func, args, kwargs)
        out = host.stand_in(log_probabilities)
        self._mode.count(operators.traits(func), args, kwargs, out)
        return out

    def on_device(self, value: torch.Tensor) -> torch.Tensor:
        """Return a counted tensor on the device with these contents."""
        out = host.stand_in(value)
        self._mode.ledger.add(out.untyped_storage(), DEVICE)
        self._known.learn(out, value)
        return out

    def index(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
        """Index with masks replaced by the positions of their true elements. Raise SimulationError for a mask of unknown
        values."""
        indices: list[Any] = []
        for index in args[1]:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                indices.append(index)
                continue
            mask = self._known.contents(index, EXPANDED_LIMIT_BYTES)
            if mask is None:
                raise SimulationError(
                    f"a boolean index of unknown values ({answers.describe(index)}): run it on the CPU or a GPU. At "
                    f"{location(caller())}"
                )
            if index.is_meta:
                self._mode.waits_for_device()  # for how many there are
            found = mask.nonzero().unbind(1)
            indices += [host.stand_in(f) for f in found] if index.is_meta else found
        out = self._mode.compute_again(func, (args[0], indices), kwargs)
        self._mode.following.computed(func, args, kwargs, out)
        return out

    def masked_select(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
        """Run ``masked_select``: a known mask gives the size even if the source is unknown."""
        source, mask = args[:2]
        known = self._known.contents(mask)
        if not source.is_meta or known is None or self._known.contents(source) is not None:
            return self.shape(func, args, kwargs)
        self._mode.waits_for_device()
        taken = int(known.broadcast_to(torch.broadcast_shapes(source.shape, mask.shape)).sum())
        out = torch.empty(taken, dtype=source.dtype, device=_META)
        self._mode.count(operators.traits(func), args, kwargs, out)
        return out

    def choice(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
        """Run an operator that returns the largest of several, or a drawn one."""
        out = self._mode.compute_again(func, args, kwargs)
        source = args[0]
        if not source.is_meta or self._mode.following.computed(func, args, kwargs, out):
            return out
        name = operators.traits(func).name
        if name in ("max", "min") and isinstance(out, torch.Tensor):
            return out  # the value alone
        chosen = out if isinstance(out, torch.Tensor) else out[1]
        position = _CHOICES[name]
        dim = -1 if position is None else kwargs.get("dim", args[position] if len(args) > position else None)
        if name == "topk" and dim is None:
            dim = -1
        self._mode.following.chose(
            chosen, source.numel() if dim is None or not source.dim() else source.shape[dim], name
        )
        return out

    def truth(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
        """Run an operator whose result may be read as a truth value."""
        out = self._mode.compute_again(func, args, kwargs)
        if (
            self._mode.following.computed(func, args, kwargs, out)
            or not isinstance(out, torch.Tensor)
            or (out.dtype != torch.bool or not args or not isinstance(args[0], torch.Tensor))
        ):
            return out
        name = operators.traits(func).name
        other = args[1] if len(args) > 1 else None
        if isinstance(other, torch.Tensor) and name in answers.COMPARISONS:
            contents = self._known.contents(other) if other.numel() == 1 else None
            other = contents.item() if contents is not None else answers.HEALTHY if other.is_floating_point() else None
        outcome = answers.outcome(name, args, out, other)
        if outcome is None and name in answers.COMPARISONS and args[0].is_floating_point():
            answers.remember_comparison(out)
        answers.remember_decision(name, args[0], out)
        if outcome is not None:
            answers.remember(out, outcome)
            if outcome.sure:
                self._mode.following.filled(out, outcome.value)
        return out

    def how_many(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
        """Run a sum of all elements; of truth values it counts the true ones."""
        out = self._mode.compute_known(func, args, kwargs)
        if args[0].dtype == torch.bool:
            answers.remember_count(args[0], out)
        return out


def each_tensor(value: object, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return the same nest of lists and tuples with other tensors. (A function that calls itself from within another would
    be a cycle that holds the tensors until garbage is collected, and the ledger would count them.)"""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(each_tensor(item, change) for item in value)
    return value
