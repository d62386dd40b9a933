"""The settings of transformers' Trainer and its subclasses (TRL's trainers), with the defaults of their release."""

from __future__ import annotations

import dataclasses
import enum
import sys
from types import FrameType
from typing import Any

from dsregress.probe.workloads.flatten import flatten

#: Suffixes of settings that belong to one run and say nothing about a release.
_OF_A_RUN = ("_dir", "_file", "_id", "_name", "_path", "_rank", "_token", "_url")


def settings_in_force() -> dict[str, Any]:
    """Return the settings of the Trainer whose code is running, as dotted keys; empty if none is."""
    settings = getattr(_running_trainer(sys._getframe(1)), "args", None)
    if not dataclasses.is_dataclass(settings):
        return {}
    values = {field.name: getattr(settings, field.name, None) for field in dataclasses.fields(settings)}
    return {
        key: found
        for name, value in values.items()
        if _is_plain(value) and not name.startswith("_") and not name.endswith(_OF_A_RUN)
        for key, found in flatten(f"trainer.{name}", value).items()
    }


def _running_trainer(frame: FrameType | None) -> object:
    """Return the innermost running Trainer, found by the frames of its methods."""
    kind = getattr(sys.modules.get("transformers.trainer"), "Trainer", None)
    while kind is not None and frame is not None:
        own = frame.f_locals.get("self")
        if isinstance(own, kind):
            return own
        frame = frame.f_back
    return None


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, enum.Enum, dict))
