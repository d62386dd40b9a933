"""The answers to a program that reads the value of a tensor that has none.

Frameworks read values for bookkeeping: is there an overflow, what is the norm of the gradients, do the ranks agree. A
healthy job has one answer to each (no; something finite; yes), and it changes neither memory nor communication, so these
are answered. Any other reader makes a decision that the simulation cannot know: an error names the place.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from harness.probe.sim.errors import SimulationError, caller, location

#: Modules that read values for bookkeeping.
_BOOKKEEPERS = ("deepspeed", "torch.optim", "torch.nn.utils", "accelerate", "harness.probe.frameworks")

#: Words in the names of functions that look for values that a healthy job does not have.
_FAULT_WORDS = ("overflow", "inf", "nan")

#: Comparisons of one value with a number, which are answered as if the value were `HEALTHY`.
COMPARISONS = {
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
}

#: What norms and losses of a healthy job are taken to be: finite and positive.
HEALTHY = 1.0


def remember(outcome: torch.Tensor, comparison: str, number: Any) -> None:
    """Notes the outcome of a comparison with a number, in case it is read."""
    outcome._dsregress_outcome = COMPARISONS[comparison](HEALTHY, number)  # type: ignore[attr-defined]


def scalar(tensor: torch.Tensor) -> Any:
    """The answer to ``tensor.item()``. Raises SimulationError, naming the place, where there is none."""
    frame = caller()
    if not _keeps_books(frame):
        raise SimulationError(
            f"a data-dependent decision ({_describe(tensor)}); sim has shapes only: run the cell on cpu or cuda. At "
            f"{location(frame)}"
        )
    if tensor.dtype == torch.bool:
        return getattr(tensor, "_dsregress_outcome", False)
    healthy = 0 if any(_looks_for_faults(name) for name in _functions(frame)) else 1
    return float(healthy) if tensor.dtype.is_floating_point else (0 if healthy == 0 else _integer(tensor, frame))


def equal() -> bool:
    """The answer to ``torch.equal``: ranks agree."""
    frame = caller()
    if not _keeps_books(frame):
        raise SimulationError(
            f"tensors compared by value; sim has shapes only: run the cell on cpu or cuda. At {location(frame)}"
        )
    return True


def _integer(tensor: torch.Tensor, frame: FrameType | None) -> int:
    if tensor.dtype == torch.uint8:  # how flags travel through a collective
        return 0
    raise SimulationError(
        f"a size in a tensor ({_describe(tensor)}); sim has shapes only: run the cell on cpu or cuda. At {location(frame)}"
    )


def _keeps_books(frame: FrameType | None) -> bool:
    module = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
    return any(module == name or module.startswith(name + ".") for name in _BOOKKEEPERS)


def _functions(frame: FrameType | None) -> Iterator[str]:
    """Names of the functions that read the value, outwards as long as they belong to a framework."""
    while frame is not None and _keeps_books(frame):
        yield frame.f_code.co_name
        frame = frame.f_back


def _looks_for_faults(function: str) -> bool:
    words = function.lower().split("_")
    return any(fault in words for fault in _FAULT_WORDS) or "overflow" in function.lower()


def _describe(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
