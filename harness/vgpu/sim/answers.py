"""The answers to a program that reads the value of a tensor that is unknown.

1. An unknown float is 1.0 to every reader: losses, norms and rewards are logged, and a healthy job's are finite and
positive. Comparing one such number is answered accordingly, and no number is NaN or infinite.

2. A choice by unknown floats (``argmax``, ``multinomial``, ``topk``) is arbitrary, spread evenly: sampled tokens are
ordinary ones, never the end of a sequence, so that generation goes on to its maximum. The number of unknown comparisons that
are true (``(a != b).sum()``, the share of clipped or right ones) is half.

3. An optimizer's own decision by unknown floats (``if p.any():``) is true, and its place is reported: what it holds does not
depend on values.

4. Unknown bytes in the shape of an image are black to who reads all of them at once: samples are logged.

5. Any other truth value or integer decides a branch, a size or the end of a loop, so it is refused, with the place.
Frameworks read such values for bookkeeping, though, and a healthy job has one answer to each: no overflow, the ranks agree.

A program that keeps reading at one place and computes nothing meanwhile, in a loop whose end depends on the answer, is ended
with that place.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import operator
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch

from vgpu.sim.errors import SimulationError, caller, location

#: Modules that read values for bookkeeping.
_BOOKKEEPERS = (
    *("deepspeed", "torch.optim", "torch.nn.utils", "accelerate", "dsregress.probe.frameworks"),
    "torch.nn.init",  # whether a number was drawn outside its bounds, and has to be drawn again
    "transformers.modeling_utils",  # whether new embeddings can be drawn from the old ones' covariance: as their mean else
)

#: Words in the names of functions that look for values that a healthy job does not have.
_FAULT_WORDS = ("overflow", "inf", "nan")

#: Comparisons of one value with a number, which are answered as if the value were `HEALTHY`.
COMPARISONS = {name: getattr(operator, name) for name in ("gt", "ge", "lt", "le", "eq", "ne")}

#: Tests for faults -> their answer for every element of a healthy tensor.
FAULTS = {"isnan": False, "isinf": False, "isposinf": False, "isneginf": False, "isfinite": True}

#: Operators on tensors of one repeated truth value -> the same in Python.
LOGIC: dict[str, Callable[[list[bool]], bool]] = {
    "any": all, "all": all, "clone": all, "logical_and": all, "bitwise_and": all, "mul": all,
    "logical_or": any, "bitwise_or": any,
    "logical_not": lambda each: not each[0], "bitwise_not": lambda each: not each[0],
}  # fmt: skip

#: The assumed value of norms and losses of a healthy job: finite and positive.
HEALTHY = 1.0


@dataclass(frozen=True)
class Outcome:
    """The assumed value of all elements of a tensor of truth values."""

    value: bool
    #: No healthy job has another value: it may decide shapes.
    sure: bool = False
    #: Every reader gets this answer, not only `_BOOKKEEPERS`.
    everybody: bool = True


def remember(truth: torch.Tensor, outcome: Outcome) -> None:
    """Attach the assumed outcome to an unknown tensor of truth values, in case it is read."""
    truth._dsregress_outcome = outcome  # type: ignore[attr-defined]


def remembered(truth: object) -> Outcome | None:
    """Return the outcome attached by `remember`; None without one."""
    return getattr(truth, "_dsregress_outcome", None)


def remember_comparison(flags: torch.Tensor) -> None:
    """Mark truth values that come from comparing unknown floats one by one."""
    flags._dsregress_compared = True  # type: ignore[attr-defined]


def remember_count(flags: torch.Tensor, count: torch.Tensor) -> None:
    """Attach to ``count`` how many of ``flags`` are assumed true, if unknown floats choose them: half."""
    if getattr(flags, "_dsregress_compared", False):
        count._dsregress_count = flags.numel() // 2  # type: ignore[attr-defined]


def remember_decision(name: str, flags: torch.Tensor, truth: torch.Tensor) -> None:
    """Mark ``truth`` if it says whether any, or all, of unknown floats are nonzero or compare as asked."""
    if name in ("any", "all") and (flags.is_floating_point() or getattr(flags, "_dsregress_compared", False)):
        truth._dsregress_decision = True  # type: ignore[attr-defined]


def outcome(name: str, args: tuple[Any, ...], out: torch.Tensor, other: object) -> Outcome | None:
    """Return the assumed value of ``out``, the truth values of an operator on unknown numbers; None if nothing can be said.
    ``other`` is the number that ``args[0]`` is compared with."""
    if name in FAULTS:
        return Outcome(FAULTS[name], sure=True)
    if name in COMPARISONS:
        compare = COMPARISONS[name]
        is_float = args[0].is_floating_point()
        if is_float and args[0] is args[1]:
            return Outcome(compare(HEALTHY, HEALTHY), sure=True)
        if is_float and isinstance(other, float) and not math.isfinite(other):
            return Outcome(compare(HEALTHY, other), sure=True)
        if out.numel() == 1 and other is not None:
            return Outcome(compare(HEALTHY, other), everybody=is_float)
        return None
    facts = [remembered(value) for value in args if isinstance(value, torch.Tensor)]
    found = [fact for fact in facts if fact is not None]
    if len(found) < len(facts) or name not in LOGIC:
        return None
    return Outcome(
        LOGIC[name]([fact.value for fact in found]),
        sure=all(fact.sure for fact in found),
        everybody=all(fact.everybody for fact in found),
    )


def scalar(tensor: torch.Tensor, decided: Callable[[str], None]) -> Any:
    """Return the answer to ``tensor.item()``. Call ``decided`` with the place of an optimizer's decision. Raise
    SimulationError, naming the place, if there is no answer."""
    frame = caller()
    ours = _keeps_books(frame)
    faults = ours and any(_looks_for_faults(name) for name in _functions(frame))
    if tensor.dtype.is_complex:
        return complex(HEALTHY)
    if tensor.dtype.is_floating_point:
        return 0.0 if faults else HEALTHY
    if tensor.dtype == torch.bool:
        taken = remembered(tensor)
        if taken is not None and (ours or taken.everybody):
            return taken.value
        if ours:
            return False
        if getattr(tensor, "_dsregress_decision", False) and _in_an_optimizer(frame):
            decided(location(frame))
            return True
    count: int | None = getattr(tensor, "_dsregress_count", None)
    if count is not None:
        return count
    if faults or (ours and tensor.dtype == torch.uint8):  # how flags travel through a collective
        return 0
    what = "a data-dependent decision" if tensor.dtype == torch.bool else "a size in a tensor"
    raise SimulationError(
        f"{what} ({describe(tensor)}); sim has shapes only: run it on the CPU or a GPU. At {location(frame)}"
    )


_WINDOWS_OVERLAP = contextvars.ContextVar("_WINDOWS_OVERLAP", default=False)


def equal() -> bool:
    """Return the answer to ``torch.equal``: ranks agree, and no window's overlap is zero. Raise SimulationError, naming the
    place, unless a framework's bookkeeping reads it."""
    if _WINDOWS_OVERLAP.get():
        return False
    frame = caller()
    if not _keeps_books(frame):
        raise SimulationError(
            f"unknown tensors compared by value; sim has shapes only: run it on the CPU or a GPU. At {location(frame)}"
        )
    return True


@dataclass
class _Asked:
    """The reads of one place."""

    code: CodeType  #: kept, so that its id is not reused
    flops: int
    since: float
    times: int = 0


class Questions:
    """Counts how often each place has read a value since the last phase began, or since something was computed."""

    #: A place that has read this often, and for this long, waits for an answer that it will not get.
    LIMIT = 100
    LIMIT_S = 300.0

    def __init__(self) -> None:
        self.assumed_floats = 0  #: unknown floats that were read, ever
        self._asked: dict[tuple[int, int], _Asked] = {}

    def begin(self) -> None:
        """Forget all reads: a phase begins."""
        self._asked.clear()

    def ask(self, flops: int) -> None:
        """Count a read by the caller; ``flops`` are those of the phase so far. Raise SimulationError if the program has done
        nothing else for too long."""
        frame = caller()
        if frame is None:
            return
        now = time.monotonic()
        place = (id(frame.f_code), frame.f_lasti)
        asked = self._asked.get(place)
        if asked is None or asked.flops != flops:  # as a generation, which reads a value for each token
            asked = self._asked[place] = _Asked(frame.f_code, flops, now)
        asked.times += 1
        if asked.times > self.LIMIT and now - asked.since > self.LIMIT_S:
            raise SimulationError(
                f"a loop that does not end: it has read a value {asked.times} times in {now - asked.since:.0f} s and "
                f"computed nothing; run it on the CPU or a GPU. At {location(frame)}"
            )


def is_image(tensor: torch.Tensor) -> bool:
    """Return True for bytes in the shape of images, or of a video: with a side of one, three or four channels."""
    channels = (1, 3, 4)
    return (
        tensor.dtype == torch.uint8
        and tensor.dim() >= 3
        and (tensor.shape[-1] in channels or tensor.shape[-3] in channels)
    )


def _keeps_books(frame: FrameType | None) -> bool:
    module = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
    return any(module == name or module.startswith(name + ".") for name in _BOOKKEEPERS)


def _functions(frame: FrameType | None) -> Iterator[str]:
    """Yield the names of the functions that read the value, outwards as long as they belong to a framework."""
    while frame is not None and _keeps_books(frame):
        yield frame.f_code.co_name
        frame = frame.f_back


@contextlib.contextmanager
def windows_overlap() -> Iterator[None]:
    """Answer within the block that no window's overlap is zero: ``torch.istft`` asks so by ``torch.equal`` (`istft` in
    ``aten/src/ATen/native/SpectralOps.cpp``)."""
    token = _WINDOWS_OVERLAP.set(True)
    try:
        yield
    finally:
        _WINDOWS_OVERLAP.reset(token)


def _in_an_optimizer(frame: FrameType | None) -> bool:
    """Return True if a method of an optimizer decides, and no model within ``step(closure)``."""
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, (torch.optim.Optimizer, torch.nn.Module)):
            return isinstance(owner, torch.optim.Optimizer)
        frame = frame.f_back
    return False


def _looks_for_faults(function: str) -> bool:
    words = function.lower().split("_")
    return any(fault in words for fault in _FAULT_WORDS) or "overflow" in function.lower()


def describe(tensor: torch.Tensor) -> str:
    """Return the dtype and shape of a tensor as messages show them: ``int64[2, 3]``."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
