"""Puts a job to the advisories: which concern it, which may, and which do not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from dsregress.advisories.advisory import Advisory, FactCondition


class Match(Enum):
    """The answer of one advisory for one job."""

    CONCERNED = "concerned"
    DEPENDS = "depends"  #: on facts that were not stated: `Matched.open`
    UNKNOWN = "unknown"  #: a release or a value was not run: `Matched.not_run`
    FREE = "free"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the reader's job. A fact that is absent is not known, and never assumed."""

    versions: Mapping[str, str]  #: of the packages of its stack
    facts: Mapping[str, Any] = {}  #: fact -> value


class Matched(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one advisory, with its reason."""

    advisory: Advisory
    match: Match
    open: tuple[FactCondition, ...] = ()  #: conditions on facts that were not stated
    not_run: tuple[str, ...] = ()  #: "deepspeed 0.19.9", "ZeRO stage 3": why nothing is known
