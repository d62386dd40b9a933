"""The metrics that a changed setting can move, by ``setting_effects.toml``.

A default that cannot move a metric is no reason for it, and of several findings in a run the first one in the causal chain
needs the reason: the others follow from it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from dsregress.compare.causal_order import causal_position
from dsregress.compare.metrics import (
    BY_NAME,
    FED_DIFFERENCE,
    METRICS,
    PARAMETER_ERROR,
    RESUMED_DATA,
    SAVED_DIFFERENCE,
    START_WEIGHTS,
    TRAINED_WEIGHTS,
    WEIGHT_PRECISION,
)
from dsregress.model import Finding

#: Stands among the families for what is trained after the optimizer's first update.
AFTER_UPDATE = "numerics after an update"

#: Likewise for what a job begins with.
_BEGINNINGS = (WEIGHT_PRECISION, START_WEIGHTS, RESUMED_DATA, FED_DIFFERENCE, TRAINED_WEIGHTS)
_WORDS = ("weight precision", "first weights", "data", "data", "trained weights")
_OF_THE_JOB = {metric.name: word for metric, word in zip(_BEGINNINGS, _WORDS, strict=True)}

#: The phase whose costs are those of what is saved.
_SAVE = "save"

#: Values of a setting that is off, lower case. Releases spell it differently.
_OFF = frozenset(("none", "null", "false", "no", "off", "0", "0.0", "", "[]", "{}"))


class _SettingEffect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings that reach the same."""

    keys: tuple[str, ...]
    reaches: frozenset[str]
    on: str = ""  #: the key of the switch without which they have no effect


class _Effects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table."""

    families: Mapping[str, tuple[str, ...]]  #: a word of ``reaches`` -> the families of metrics that it stands for
    setting: tuple[_SettingEffect, ...]

    def __post_init__(self) -> None:
        families = {AFTER_UPDATE, *_OF_THE_JOB.values(), *(metric.family for metric in METRICS)}
        unknown = {one for named in self.families.values() for one in named} - families
        unknown |= {word for one in self.setting for word in one.reaches} - self.families.keys()
        if unknown:
            raise ValueError(f"neither a family of metrics nor a word for some: {', '.join(sorted(unknown))}")


def reached_families(key: str, value: object, baseline: object, configuration: Mapping[str, object]) -> frozenset[str]:
    """Return the families of metrics that the change of a setting can move; none if it is off on both sides or not in use,
    or if a release has no value of it: that is an option that was removed, or renamed.

    ``configuration`` is the one in force with the changed value. Its keys may be those of one of several models
    (``critic: optimizer.lr``)."""
    if value is None or baseline is None or (_is_off(value) and _is_off(baseline)):
        return frozenset()
    model, separator, own = key.rpartition(": ")
    effect = next((one for one in _effects().setting if any(fnmatchcase(own, pattern) for pattern in one.keys)), None)
    if effect is None or (effect.on and _is_off(configuration.get(f"{model}{separator}{effect.on}"))):
        return frozenset()
    return frozenset(family for word in effect.reaches for family in _effects().families[word])


def must_reach(found: Collection[Finding]) -> str:
    """Return the family of metrics that the reason of some findings of one cause has to move: that of the first in the
    chain."""
    first = min(map(causal_position, found))
    members = [one for one in found if causal_position(one) == first]
    metric = BY_NAME[members[0].metric]
    if metric.name in _OF_THE_JOB:
        return _OF_THE_JOB[metric.name]
    if all(one.phase == _SAVE for one in members):
        return SAVED_DIFFERENCE.family
    is_after = metric.family == PARAMETER_ERROR.family and not any(one.before_update for one in members)
    return AFTER_UPDATE if is_after else metric.family


def _is_off(value: object) -> bool:
    return str(value).lower() in _OFF


@functools.cache
def _effects() -> _Effects:
    return read_effects(Path(__file__).with_suffix(".toml").read_bytes())


def read_effects(content: bytes) -> _Effects:
    """Return the table. Raise ValueError if it names a family of metrics, or a word for some, that there is not."""
    return msgspec.toml.decode(content, type=_Effects)
