"""Triton's other names, which programs import, annotate with and compare. Only kernels can use them, and none runs here."""

from __future__ import annotations

from types import FrameType
from typing import Any

from vgpu.stand_ins.placeholders import Placeholder, placeholder

__all__ = ["__getattr__", "constexpr"]


class constexpr:
    """A value that is fixed when a kernel is compiled."""

    def __init__(self, value: Any) -> None:
        self.value = getattr(value, "value", value)

    def __index__(self) -> int:
        return int(self.value)


class _Name(Placeholder):
    """The placeholder of one of Triton's names. All are there for a program that asks first, too."""

    reason = ": only kernels can call it, and none is run in sim"

    def answer_call(cls, frame: FrameType, *args: Any, **kwargs: Any) -> Any:
        if cls.__name__.endswith("_type"):  # of types, as in the annotation ``counts: tl.pointer_type(tl.int64)``
            return cls
        return super().answer_call(frame, *args, **kwargs)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return placeholder(f"triton's {name}", "triton", _Name)
