"""Known values: small tensors on the simulated device that keep what they contain.

Token ids, masks, labels, positions, lengths and flags come from the host or from factories, and programs decide by them:
which elements a boolean index takes, how long a batch is, whether a mask can be left out. So:

1. A tensor of up to `limit_bytes` that was copied from the host, made by a factory, or computed from such tensors alone
   has its true contents; a collective on it has the result that it has when every rank holds the same.
2. All else is unknown: weights, whatever an unknown tensor took part in, random floats (random integers are drawn),
   floats that were never written (integers that were never written are zeros).
3. What is made of known values has the bytes, the launches and the shape that it has on a GPU: contents are kept with
   the storages that are counted and are never counted themselves.

Unknown values that a program reads: `vgpu.sim.answers`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

#: The largest tensor that is known, in bytes: 131,072 token ids, more than a micro-batch has. Computing on less costs no
#: more than dispatching does.
LIMIT_BYTES = 1 << 20

#: The same for flags and indices, which have more elements than tokens: the mask of Mixtral's router has one for each token,
#: choice and expert, 16 MiB for 131,072 tokens of two choices among eight experts. No float reaches it, so states of
#: optimizers, which begin as zeros, keep nothing.
INDEX_LIMIT_BYTES = 1 << 24

_INDICES = (torch.bool, torch.int32, torch.int64)

#: The limit for a mask expanded from known values, as Qwen2-VL's from a flag per token to all of its features.
EXPANDED_LIMIT_BYTES = 1 << 28

_CPU = torch.device("cpu")


def limit_bytes(dtype: torch.dtype) -> int:
    """Return the size of the largest tensor of this dtype that is known."""
    return INDEX_LIMIT_BYTES if dtype in _INDICES else LIMIT_BYTES


class _Contents(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to a storage of the device, with a CPU storage of the same size."""

    __slots__ = ("data", "key")

    data: Any
    key: int


class KnownValues:
    """The contents of the device's storages, as far as they are known.

    They belong to storages, so that a write through any view is seen by all. ``is_ghost`` returns True if the contents of a
    CPU tensor are unknown; any other CPU tensor is its own contents.
    """

    def __init__(self, is_ghost: Callable[[torch.Tensor], bool]) -> None:
        self._is_ghost = is_ghost
        self._table: dict[int, _Contents] = {}

    def maybe(self, tensor: torch.Tensor) -> bool:
        """Return False if a tensor on the device is unknown: every operator needs this, so it is cheap."""
        return tensor.untyped_storage()._cdata in self._table or not tensor.numel()

    def contents(self, tensor: torch.Tensor, limit: int | None = None) -> torch.Tensor | None:
        """Return a CPU tensor of the same geometry that shares the contents (writes to it are writes to them); None if they
        are unknown."""
        if not tensor.is_meta:
            return None if tensor.device.type != "cpu" or self._is_ghost(tensor) else tensor
        storage = tensor.untyped_storage()
        known = self._table.get(storage._cdata)
        if known is None:
            return None if tensor.numel() else _blank(tensor)
        if is_weight(tensor) or known.data.nbytes() != storage.nbytes():
            del self._table[storage._cdata]
            return None
        if tensor.numel() * tensor.element_size() > (limit or limit_bytes(tensor.dtype)):
            return None  # one number, expanded to millions
        return _over(known.data, tensor)

    def learn(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        """Record the values written to all elements of a tensor on the device."""
        if not tensor.is_meta or is_weight(tensor) or value.shape != tensor.shape or value.dtype != tensor.dtype:
            return
        storage = tensor.untyped_storage()
        nbytes = storage.nbytes()
        known = self._table.get(storage._cdata)
        if known is None or known.data.nbytes() != nbytes:
            if not self.blank(tensor):
                return
            known = self._table[storage._cdata]
        aten.copy_(_over(known.data, tensor), value)

    def blank(self, tensor: torch.Tensor) -> bool:
        """Give a storage that the tensor covers contents of zeros. Return False if the tensor does not cover it, or it is
        too large."""
        storage = tensor.untyped_storage()
        nbytes = storage.nbytes()
        if not 0 < nbytes <= limit_bytes(tensor.dtype) or tensor.numel() * tensor.element_size() != nbytes:
            return False
        if torch._debug_has_internal_overlap(tensor) != 0:
            return False
        table = self._table
        known: _Contents = _Contents(storage, lambda gone: _drop(table, gone))
        known.key = storage._cdata
        known.data = aten.zeros([nbytes], dtype=torch.uint8, device=_CPU).untyped_storage()
        table[known.key] = known
        return True

    def forget(self, tensor: torch.Tensor) -> None:
        """Drop the contents of the tensor's storage: something unknown was written to it."""
        if self._table:
            self._table.pop(tensor.untyped_storage()._cdata, None)

    def forget_storage(self, storage: Any) -> None:
        """Drop the contents of a storage, as when it is resized."""
        self._table.pop(storage._cdata, None)

    def inputs(self, values: object) -> Any:
        """Return an operator's arguments with contents in place of tensors; `UNKNOWN` if one of them is unknown."""
        if isinstance(values, torch.Tensor):
            found = self.contents(values)
            return UNKNOWN if found is None else found
        if isinstance(values, (list, tuple)):
            changed = []
            for value in values:
                one = self.inputs(value) if isinstance(value, (torch.Tensor, list, tuple)) else value
                if one is UNKNOWN:
                    return UNKNOWN
                changed.append(one)
            return type(values)(changed) if type(values) in (list, tuple) else changed
        return values


#: Stands in for contents.
UNKNOWN: Any = object()


def is_weight(tensor: torch.Tensor) -> bool:
    """Return True for a parameter or a tensor that requires grad: training changes it, so it is unknown wherever it came
    from."""
    return type(tensor) is torch.nn.Parameter or tensor.requires_grad


def _over(data: object, tensor: torch.Tensor) -> torch.Tensor:
    empty = aten.empty.memory_format([0], dtype=tensor.dtype, device=_CPU)
    return aten.set_.source_Storage_storage_offset(  # type: ignore[no-any-return]
        empty, data, tensor.storage_offset(), tensor.size(), tensor.stride()
    )


def _blank(tensor: torch.Tensor) -> torch.Tensor:
    return aten.empty_strided(  # type: ignore[no-any-return]
        tensor.size(), tensor.stride(), dtype=tensor.dtype, device=_CPU
    )


def _drop(table: dict[int, _Contents], gone: Any) -> None:
    key = gone.key
    if table.get(key) is gone:
        del table[key]
