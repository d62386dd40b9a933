"""A store of torch's process groups for one simulated rank: the other ranks do what this one does, at the same time.

So a count that each rank adds to is complete at once, as in torch's own barrier by the store
(``TORCH_DIST_INIT_BARRIER=1``), and no rank waits. A value that only another rank would write is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from vgpu.no_stand_in import NoStandInError


class SimulatedStore(dist.Store):
    """See the module. torch calls these methods from C++ too, two of them by other names."""

    def __init__(self, world_size: int) -> None:
        super().__init__()
        self._world_size = world_size
        self._values: dict[str, bytes] = {}

    def set(self, key: str, value: Any) -> None:
        self._values[key] = _as_bytes(value)

    def get(self, key: str) -> bytes:
        """Raise NoStandInError if this rank has not written the value."""
        if key not in self._values:
            raise NoStandInError(f"the store's {key!r} is another rank's to write", "run on cpu, or on cuda")
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        total = int(self._values.get(key, b"0")) + amount * self._world_size
        self._values[key] = str(total).encode()
        return total

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        expected = _as_bytes(expected_value)
        if self._values.get(key, b"") == expected:
            self.set(key, desired_value)
        return self._values.get(key, expected)

    def append(self, key: str, value: Any) -> None:
        self.set(key, self._values.get(key, b"") + _as_bytes(value))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def check(self, keys: Sequence[str]) -> bool:
        return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Return at once: what the other ranks write is there as soon as this one asks."""

    def delete_key(self, key: str) -> bool:
        return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        return len(self._values)

    deleteKey = delete_key
    getNumKeys = num_keys


def _as_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
