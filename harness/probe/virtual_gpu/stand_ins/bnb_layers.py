"""``bitsandbytes.nn``: classes that frameworks ask a module's type for. None can be made here."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["Int8Params", "Linear4bit", "Linear8bitLt", "Params4bit"]


def _refused(name: str) -> NotImplementedError:
    return NotImplementedError(
        f"bitsandbytes.nn.{name} has no stand-in: load the model without load_in_4bit and load_in_8bit; "
        f"bitsandbytes.optim has stand-ins"
    )


class Linear4bit(torch.nn.Linear):
    def __init__(self, *_: Any, **__: Any) -> None:
        raise _refused("Linear4bit")


class Linear8bitLt(torch.nn.Linear):
    def __init__(self, *_: Any, **__: Any) -> None:
        raise _refused("Linear8bitLt")


class Params4bit(torch.nn.Parameter):
    def __new__(cls, *_: Any, **__: Any) -> Params4bit:
        raise _refused("Params4bit")


class Int8Params(torch.nn.Parameter):
    def __new__(cls, *_: Any, **__: Any) -> Int8Params:
        raise _refused("Int8Params")
