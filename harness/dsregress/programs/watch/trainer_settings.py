"""The settings of transformers' Trainer and its subclasses (TRL's trainers), with the defaults of their release."""

from __future__ import annotations

import dataclasses
import enum
import sys
from typing import Any

from dsregress.probe.workloads.flatten import flatten
from dsregress.programs.watch.trainer_end import OF_TRANSFORMERS, running

#: Suffixes of settings that belong to one run and say nothing about a release.
_OF_A_RUN = ("_dir", "_file", "_id", "_name", "_path", "_rank", "_token", "_url")


def settings_in_force() -> dict[str, Any]:
    """Return the settings of the Trainer whose code is running, as dotted keys; empty if none is."""
    settings = getattr(running(sys._getframe(1), (OF_TRANSFORMERS,)), "args", None)
    if not dataclasses.is_dataclass(settings):
        return {}
    values = {field.name: getattr(settings, field.name, None) for field in dataclasses.fields(settings)}
    return {
        key: found
        for name, value in values.items()
        if _is_plain(value) and not name.startswith("_") and not name.endswith(_OF_A_RUN)
        for key, found in flatten(f"trainer.{name}", value).items()
    }


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, enum.Enum, dict))
