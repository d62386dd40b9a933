"""Calls past the dispatcher's detour into Python.

Frameworks that partition cut a view per rank out of each parameter that they gather and each gradient that they reduce, and
may copy as many: in a job of 512 ranks these are most of all operators. So these calls are answered at once, where nothing
else could see them: on plain tensors (a view of a weight means something to a `SimulationMode`) and while no other
dispatch mode is on.

- A view touches no element and makes no storage, so it is in no figure, and its known contents are its storage's
  (`vgpu.sim.known`): torch's own kernel makes it, with autograd as always.
- A copy of unknown values on the device that autograd does not record is only counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.graph import increment_version

from vgpu.meters.ledger import NOWHERE
from vgpu.replacing import Patches

_past_modes: Any = torch._C._DisableTorchDispatch  # type: ignore[attr-defined]
_modes = torch._C._len_torch_dispatch_stack


def _is_read(size: object) -> bool:
    """Return True for a tensor in place of a size, or a list with one: its value is known past no detour."""
    if type(size) in (list, tuple):
        return any(map(_is_read, size))  # type: ignore[call-overload]
    return isinstance(size, torch.Tensor)


@contextlib.contextmanager
def answered(mode: Any) -> Iterator[None]:
    """Let ``narrow``, ``view`` and ``copy_`` of tensors bypass the dispatcher within the block, where they can. ``mode`` is
    the running `SimulationMode`.

    ``tensor[begin:end]`` cannot: once a class was given a ``__getitem__`` in Python, Python's C interface takes its objects
    for sequences for the rest of the process, and then ``torch.tensor([loss])`` asks for the length of a number.
    """
    plain = torch.Tensor
    narrow, view, copy_ = plain.narrow, plain.view, plain.copy_

    def direct_narrow(self: object, dim: object, start: object, length: object) -> object:
        if type(self) is plain and type(start) is type(length) is int and _modes() == 1:
            with _past_modes():
                return narrow(self, dim, start, length)
        return narrow(self, dim, start, length)

    def direct_view(self: object, *shape: object, **named: object) -> object:
        if type(self) is plain and _modes() == 1 and not any(map(_is_read, shape)):
            with _past_modes():
                return view(self, *shape, **named)
        return view(self, *shape, **named)

    def direct_copy_(self: Any, src: object, non_blocking: bool = False) -> object:
        if (
            type(self) is plain
            and type(src) is plain
            and _modes() == 1
            and not torch.is_grad_enabled()
            and not mode.ledger.live[NOWHERE]
        ):
            with torch._C.DisableTorchFunction():
                if not self.is_inference() and mode.copied_unknown(self, src):  # those of inference have no version
                    increment_version(self)
                    return self
        return copy_(self, src, non_blocking)

    with Patches("torch's Python decompositions skip the mode") as patches:
        for function in (direct_narrow, direct_view, direct_copy_):
            patches.replace(plain, function.__name__.removeprefix("direct_"), function)
        yield
