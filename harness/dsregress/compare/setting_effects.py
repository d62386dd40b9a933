"""The metrics that a changed setting can move, by ``setting_effects.toml``.

A default that cannot move a metric is no reason for it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from dsregress.compare.metrics import (
    COLLECTIVE_COUNT,
    DEVICE_EXCESS,
    DEVICE_PEAK,
    FLOPS,
    HOST_CALLS,
    OUTCOME,
    PARAMETER_ERROR,
    SAVED_DIFFERENCE,
    STEP_TIME,
)

#: By a metric's family: the word that the table has for it. Of the outcomes, a default explains only a lack of memory.
_REACHED = {
    PARAMETER_ERROR.family: "training",
    DEVICE_PEAK.family: "memory",
    DEVICE_EXCESS.family: "memory",
    OUTCOME.family: "memory",
    HOST_CALLS.family: "work",
    FLOPS.family: "work",
    COLLECTIVE_COUNT.family: "work",
    STEP_TIME.family: "work",
    SAVED_DIFFERENCE.family: "saved",
}

#: Values of a setting that is off, lower case. Releases spell it differently.
_OFF = frozenset(("none", "null", "false", "no", "off", "0", "0.0", "", "[]", "{}"))


class _SettingEffect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings that reach the same."""

    keys: tuple[str, ...]
    reaches: frozenset[str]
    on: str = ""  #: the key of the switch without which they have no effect


def reached_families(key: str, value: Any, baseline: Any, configuration: Mapping[str, Any]) -> frozenset[str]:
    """Return the families of metrics that the change of a setting can move; none if it is off on both sides or not in use,
    or if a release has no value of it: that is an option that was removed, or renamed.

    ``configuration`` is the one in force with the changed value. Its keys may be those of one of several models
    (``critic: optimizer.lr``)."""
    if value is None or baseline is None or (_is_off(value) and _is_off(baseline)):
        return frozenset()
    model, separator, own = key.rpartition(": ")
    effect = next((one for one in _effects() if any(fnmatchcase(own, pattern) for pattern in one.keys)), None)
    if effect is None or (effect.on and _is_off(configuration.get(f"{model}{separator}{effect.on}"))):
        return frozenset()
    return frozenset(family for family, word in _REACHED.items() if word in effect.reaches)


def _is_off(value: Any) -> bool:
    return str(value).lower() in _OFF


@functools.cache
def _effects() -> tuple[_SettingEffect, ...]:
    content = Path(__file__).with_name("setting_effects.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, tuple[_SettingEffect, ...]])["setting"]
