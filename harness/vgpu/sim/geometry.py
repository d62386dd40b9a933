"""A cache of operators' results by the geometry of their arguments.

On tensors without contents an operator's result is a function of its arguments' sizes, strides and dtypes and of the other
arguments' values. torch computes it anew each time, for many operators in Python (`torch._refs`), which takes a hundred
times as long as making the result, and a model of eighty equal layers needs the same few hundred results thousands of times.

Only such functions are cached: the operator's schema says that it writes nothing and returns none of its arguments, every
tensor in its arguments and in its result is on the meta device, and the storage of each result is new and as large as its
sizes and strides need.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import torch

#: One result: sizes, strides, dtype; or a value other than a tensor.
_Result = tuple[Any, ...]

_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def key(func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> Hashable | None:
    """Return the cache key, all that the result depends on; None if it may depend on more."""
    parts: list[Any] = [func]
    if not _describe(args, parts):
        return None
    for name, value in kwargs.items():
        parts.append(name)
        if not _describe((value,), parts):
            return None
    return tuple(parts)


def _describe(values: Any, parts: list[object]) -> bool:
    for value in values:
        if isinstance(value, torch.Tensor):
            if not value.is_meta:
                return False
            parts += (value.shape, value.stride(), value.dtype)
        elif isinstance(value, _PLAIN):
            parts += (type(value), value)  # 1, 1.0 and True are equal, and promote dtypes differently
        elif isinstance(value, (list, tuple)):
            parts.append(len(value))
            if not _describe(value, parts):
                return False
        else:
            return False
    return True


class ResultCache:
    """Results by `key`."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[tuple[_Result, ...], type | None, int]] = {}

    def lookup(self, key: Hashable) -> tuple[Any, int] | None:
        """Return a new result, as the operator would give it, and its FLOPs; None if it is not cached."""
        known = self._known.get(key)
        if known is None:
            return None
        results, kind, flops = known
        if kind is None:
            return _make(results[0]), flops
        return kind(_make(result) if len(result) == 3 else result[0] for result in results), flops

    def store(self, key: Hashable, arguments: Iterable[torch.Tensor], out: Any, flops: int) -> None:
        """Cache the operator's result for these tensors, if it can be made again."""
        kind = type(out) if isinstance(out, (list, tuple)) else None
        returned = out if kind else (out,)
        results = [_result(value) for value in returned]
        if None in results:
            return
        storages = [value.untyped_storage()._cdata for value in returned if isinstance(value, torch.Tensor)]
        inputs = {tensor.untyped_storage()._cdata for tensor in arguments}
        if len({*storages, *inputs}) == len(storages) + len(inputs):
            self._known[key] = (tuple(results), kind, flops)  # type: ignore[arg-type]


def is_pure(func: torch._ops.OpOverload) -> bool:
    """Return True if an operator's schema says that it writes nothing and returns no argument."""
    schema = func._schema
    return all(each.alias_info is None for each in (*schema.arguments, *schema.returns))


def _result(one: object) -> _Result | None:
    """Return how to make a result again; None if that is not known."""
    if not isinstance(one, torch.Tensor):
        return (one,) if isinstance(one, _PLAIN) else None
    if not one.is_meta or type(one) is not torch.Tensor or one.storage_offset():
        return None
    result = (one.shape, one.stride(), one.dtype)
    return result if one.untyped_storage().nbytes() == _make(result).untyped_storage().nbytes() else None


def _make(result: _Result) -> torch.Tensor:
    size, stride, dtype = result
    return torch.empty_strided(size, stride, dtype=dtype, device="meta")
