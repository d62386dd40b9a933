"""Stand-ins of the user's own, for compiled kernels that this package does not know."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from vgpu.replacing import Patches
from vgpu.stand_ins import finder

_Part = TypeVar("_Part", bound=Callable[..., Any])

#: Module -> name -> the stand-in.
_registered: dict[str, dict[str, Any]] = {}


def register(name: str) -> Callable[[_Part], _Part]:
    """Return a decorator that makes a function or class the stand-in of ``name``, such as ``my_kernels._C.rms_norm``, on
    virtual GPUs that are attached from now on. If its module cannot be imported there, the stand-in is all that the module
    has; else it replaces what the module has.

    The function allocates what the kernel allocates, with torch on the device of its arguments, and launches it within
    ``vgpu.kernel(*written, flops=...)``. Raise ValueError for a name without a module.
    """
    module, _, part = name.rpartition(".")
    if not module:
        raise ValueError(f"{name}: give the full name, as my_kernels.rms_norm")

    def registering(stand_in: _Part) -> _Part:
        _registered.setdefault(module, {})[part] = stand_in
        return stand_in

    return registering


@contextlib.contextmanager
def provided() -> Iterator[None]:
    """Provide the registered stand-ins within the block."""
    with Patches("registered by the caller") as patches:
        absent = [module for module in _registered if not _exists(module)]
        packages = [
            finder.Package(top, top, "0", {name: () for name in _with_parents(absent) if name.partition(".")[0] == top})
            for top in sorted({module.partition(".")[0] for module in absent})
        ]
        patches.enter_context(finder.found_beside(packages))
        for module, parts in _registered.items():
            found = importlib.import_module(module)
            for name, stand_in in parts.items():
                patches.add(found, name, stand_in)
        yield


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package does not exist
        return False


def _with_parents(modules: list[str]) -> list[str]:
    """Return these modules and those of their packages that do not exist."""
    found: list[str] = []
    for module in modules:
        parts = module.split(".")
        for length in range(1, len(parts) + 1):
            name = ".".join(parts[:length])
            if name not in found and not _exists(name):
                found.append(name)
    return found
