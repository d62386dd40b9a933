"""Views past the dispatcher's detour into Python.

Frameworks that partition cut a view per rank out of each parameter that they gather and each gradient that they reduce: in a
job of 512 ranks these are most of all operators. A view touches no element and makes no storage, so it is in no figure, and
its known contents are its storage's (`harness.probe.sim.known`). So these calls go to torch's own kernels at once, with
autograd as always, where nobody else could want to see them: on a plain tensor (a view of a weight means something to a
`SimulationMode`), with numbers as bounds, and while no other dispatch mode is on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from harness.probe.replacing import Patches

_past_modes: Any = torch._C._DisableTorchDispatch  # type: ignore[attr-defined]
_modes = torch._C._len_torch_dispatch_stack


@contextlib.contextmanager
def direct() -> Iterator[None]:
    """Inside, ``tensor.narrow(...)``, ``tensor.view(...)`` and ``tensor[begin:end]`` pass by the running mode."""
    plain = torch.Tensor
    narrow, view, getitem = plain.narrow, plain.view, plain.__getitem__

    def direct_narrow(self: Any, dim: Any, start: Any, length: Any) -> Any:
        if type(self) is plain and type(start) is int and _modes() == 1:
            with _past_modes():
                return narrow(self, dim, start, length)
        return narrow(self, dim, start, length)

    def direct_view(self: Any, *shape: Any, **named: Any) -> Any:
        if type(self) is plain and _modes() == 1:
            with _past_modes():
                return view(self, *shape, **named)
        return view(self, *shape, **named)

    def direct_getitem(self: Any, index: Any) -> Any:
        if type(index) is slice and type(self) is plain and _modes() == 1 and _numbers(index):
            with _past_modes():
                return getitem(self, index)
        return getitem(self, index)

    with Patches() as patches:
        patches.set(plain, "narrow", direct_narrow)
        patches.set(plain, "view", direct_view)
        patches.set(plain, "__getitem__", direct_getitem)
        yield


def _numbers(bounds: slice) -> bool:
    """Else a bound may be a tensor, whose value is asked for."""
    return type(bounds.start) is int and type(bounds.stop) is int and bounds.step is None
