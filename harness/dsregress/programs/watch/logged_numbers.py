"""The losses and gradient norms that a trainer shows, which people watch, beside what is trained."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping

import torch

from vgpu.replacing import Patches

#: Methods that take what is shown by name: module, class, name.
_CALLS = (("transformers.trainer", "Trainer", "log"), ("accelerate.accelerator", "Accelerator", "log"))

#: Parts of the names of what is shown.
_SHOWN = ("loss", "grad_norm")

#: Most calls that are kept.
_MOST_KEPT = 64


class LoggedNumbers:
    """Everything of one rank, in order."""

    def __init__(self) -> None:
        self.shown: list[dict[str, float | None]] = []  #: by call, by name; None is no number
        self._patches = Patches("what a trainer shows is recorded")
        self._waiting = list(_CALLS)

    def watch_imported(self) -> None:
        """Watch what has been imported so far."""
        for call in tuple(self._waiting):
            module, owner, name = call
            kind = getattr(sys.modules.get(module), owner, None)
            if kind is not None:
                self._waiting.remove(call)
                self._patches.replace(kind, name, self._logging(getattr(kind, name)))

    def end(self) -> None:
        """Watch no longer."""
        self._patches.close()

    def _logging(self, original: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(original)
        def log(trainer: object, *args: object, **kwargs: object) -> object:
            self._keep_shown(next(iter((*args, *kwargs.values())), None))
            return original(trainer, *args, **kwargs)

        return log

    def _keep_shown(self, logs: object) -> None:
        if not isinstance(logs, Mapping) or len(self.shown) >= _MOST_KEPT:
            return
        shown = {
            str(name): number for name, value in logs.items() if (number := _shown_number(name, value)) is not None
        }
        if shown:
            self.shown.append({name: number if math.isfinite(number) else None for name, number in shown.items()})


def _shown_number(name: object, value: object) -> float | None:
    if not isinstance(name, str) or not any(part in name for part in _SHOWN):
        return None
    if isinstance(value, torch.Tensor):
        return float(value) if value.numel() == 1 and value.device.type != "meta" else None
    return float(value) if isinstance(value, (int, float)) else None
