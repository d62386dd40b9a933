"""``results/advisories/advisories.toml``: what people say of each advisory."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from dsregress.advisories.advisory import (
    AdvisoryKind,
    FactCondition,
    MeasuredSymptom,
    PartnerCondition,
    RaisedError,
    ReleaseRange,
    Remedy,
    Ruling,
    UpstreamLinks,
)
from dsregress.probe.factor import among
from dsregress.probe.factors import BY_NAME
from tests.paths import ROOT

FOLDER = ROOT / "results" / "advisories"


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One advisory, as far as people write it."""

    id: str
    kind: AdvisoryKind
    ruling: Ruling
    sees: str
    raises: tuple[RaisedError, ...] = ()
    scripts: tuple[str, ...] = ()  #: in results/reproducers; of several it is a problem if any shows it
    by_hand: tuple[str, ...] = ()  #: in results/reproducers/by_hand; without `scripts`, their exit codes give the range
    untestable: str = ""  #: a part of the error with which a release does not import
    rest_of: str = ""  #: a script whose jobs are wrong in releases in which it passes, by another cause: this one
    in_some_jobs: bool = False
    upstream: str | None = None  #: the words of a problem in upstream.toml
    package: str = "deepspeed"  #: that the range is of
    title: str = ""
    detail: str = ""
    size: str = ""
    drops: tuple[str, ...] = ()  #: conditions of the script that its reader does not need
    conditions: tuple[FactCondition, ...] = ()
    partners: tuple[PartnerCondition, ...] = ()
    ranges: tuple[ReleaseRange, ...] = ()  #: if no source has them as data; `run` says what was run
    also_affected: tuple[str, ...] = ()  #: releases that the scripts by hand were run in before runs.toml
    right_in: tuple[str, ...] = ()  #: releases in which a script by hand shows another advisory's part alone
    is_of_the_passing: bool = False  #: the releases in which the script by hand passes are those of the record
    remedies: tuple[Remedy, ...] = ()
    run: str = ""
    shown_by: MeasuredSymptom | None = None
    also_shown_by: tuple[MeasuredSymptom, ...] = ()  #: beside what the scripts ask
    references: UpstreamLinks = UpstreamLinks()
    published: str = "2026-11-26"
    modified: str = ""
    withdrawn: str = ""

    @property
    def further_conditions(self) -> tuple[FactCondition, ...]:
        """The conditions with None where TOML, which has none, has an empty string."""
        return tuple(map(_with_none, self.conditions))


def _with_none(one: FactCondition) -> FactCondition:
    factor = BY_NAME.get(one.fact)
    if factor is not None and among("", (*factor.values, *factor.known)):
        return one

    def values(of: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(None if value == "" else value for value in of)

    return msgspec.structs.replace(one, shown=values(one.shown), hidden=values(one.hidden), unknown=values(one.unknown))


@functools.cache
def entries() -> tuple[Entry, ...]:
    """The whole table."""
    content = (FOLDER / "advisories.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, tuple[Entry, ...]])["advisory"]
