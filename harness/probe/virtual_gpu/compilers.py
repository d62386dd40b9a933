"""``torch.compile``: what a compiler makes of a model, its fused kernels and what they keep for the backward, is not known
before it has run on a GPU. So it is refused where it would compile, unless the program runs eagerly.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from harness.probe.replacing import Patches
from harness.probe.sim.errors import SimulationError, caller, location

#: torch's own switches, of older and of newer releases.
_SWITCHES = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Models are refused at once, functions when they are called: a library decorates many that no training calls."""

    def compile(model: Any = None, **kwargs: Any) -> Any:
        if model is None:
            return functools.partial(compile, **kwargs)
        if _is_eager(kwargs):
            return model
        if isinstance(model, torch.nn.Module) or isinstance(getattr(model, "__self__", None), torch.nn.Module):
            raise _error()
        return _refusing(model)

    def compile_module(module: Any, *args: Any, **kwargs: Any) -> None:
        if not _is_eager(kwargs):
            raise _error()

    with Patches() as patches:
        patches.set(torch, "compile", compile)
        patches.replace(torch.nn.Module, "compile", compile_module)
        yield


def _is_eager(options: dict[str, Any]) -> bool:
    switched_off = any(os.environ.get(name) == "1" for name in _SWITCHES)
    return switched_off or options.get("backend") == "eager" or bool(options.get("disable"))


def _refusing(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> Any:
        if _is_eager({}):
            return function(*args, **kwargs)
        raise _error()

    return refuse


def _error() -> SimulationError:
    return SimulationError(
        "torch.compile: what the compiler makes of a model is not known without a GPU; write TORCH_COMPILE_DISABLE=1 before "
        f"the launch line to run it eagerly, or switch it off in the program. At {location(caller())}"
    )
