"""Triton's other names, which programs import, annotate with and compare. Only kernels can use them, and none runs here."""

from __future__ import annotations

from typing import Any

from vgpu.no_stand_in import NoStandInError

__all__ = ["__getattr__", "constexpr"]


class constexpr:
    """A value that is fixed when a kernel is compiled."""

    def __init__(self, value: Any) -> None:
        self.value = getattr(value, "value", value)

    def __index__(self) -> int:
        return int(self.value)


class _Name(type):
    """A class that stands for a name, which can be imported, be a default or an annotation, and be an argument of
    ``isinstance``."""

    def __call__(cls, *_: object, **__: object) -> object:
        if cls.__name__.endswith("_type"):  # of types, as in the annotation ``counts: tl.pointer_type(tl.int64)``
            return cls
        raise NoStandInError(f"{cls.__qualname__} has no stand-in: only kernels can call it, and none is run in sim")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Name(name, (), {"__qualname__": f"triton's {name}", "__module__": "triton"})
