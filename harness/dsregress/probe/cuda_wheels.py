"""torchvision and torchaudio with a torch that they were not built for.

On a machine without a GPU an environment has torch's CPU build, and if no index has theirs, their wheels for CUDA, whose
compiled parts cannot be loaded. Most programs need none of them, and could not import the packages all the same:

- torchvision reports a missing operator (``nms``, ``roi_align`` and a few more of object detection) only when it is called,
  but it also describes ``nms`` while it is imported;
- torchaudio also comes without its extension, and then refuses the functions that need it. An extension that exists and
  does not load is an error.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from vgpu.no_stand_in import NoStandInError
from vgpu.replacing import Patches

#: Whatever a program imports later is described the same way, so these never end.
_FOR_GOOD = Patches("torchvision describes operators that its wheel for CUDA lacks here")

_NAMESPACE = "torchvision::"
_EXTENSION = "torchaudio._extension"


def import_without_extensions() -> None:
    """Make the two packages importable from now on even if their compiled parts cannot be loaded. Import torch if
    torchvision is installed."""
    if importlib.util.find_spec("torchvision") is not None:
        _describe_what_is_there()
    if importlib.util.find_spec("torchaudio") is not None:
        sys.meta_path.insert(0, _ExtensionFinder())


def _describe_what_is_there() -> None:
    import torch

    if not _FOR_GOOD.has(torch.library, "register_fake", since="torch 2.4"):
        return
    describe = torch.library.register_fake

    def register_fake(operator: object, *args: object, **kwargs: object) -> object:
        if isinstance(operator, str) and operator.startswith(_NAMESPACE):
            name = operator.removeprefix(_NAMESPACE).partition(".")[0]
            if not hasattr(torch.ops.torchvision, name):
                return _as_it_is
        return describe(operator, *args, **kwargs)

    _FOR_GOOD.replace(torch.library, "register_fake", register_fake)


def _as_it_is(function: Callable[..., object]) -> Callable[..., object]:
    return function


class _ExtensionFinder:
    """Finds torchaudio's module that loads the extension; if that fails, it counts as absent."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _EXTENSION:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _ExtensionLoader(spec.loader)
        return spec


class _ExtensionLoader(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        try:
            self._loader.exec_module(module)
        except (OSError, ImportError):
            module.__dict__["__getattr__"] = _without_extension


def _without_extension(name: str) -> object:
    """Return an attribute of that module as it is without the extension; each release names them differently. Raise
    AttributeError for any other name."""
    if name.startswith("_IS_"):
        return False
    if name.startswith("fail_if_no_"):
        return _refusing
    raise AttributeError(name)


def _refusing(function: Callable[..., object]) -> Callable[..., object]:
    def refuse(*args: object, **kwargs: object) -> object:
        raise NoStandInError(f"torchaudio's {function.__name__} needs its extension, which is built for CUDA")

    return refuse
