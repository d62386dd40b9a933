"""The record of one problem: an advisory. Pure data; `osv` reads and writes it as a file.

An advisory claims no more than was run: a release is affected or unaffected if its script or a measured job says so, and
unknown otherwise; so is each value of a fact that decides.
"""

from __future__ import annotations

import functools
from enum import Enum
from typing import Any

import msgspec


class AdvisoryKind(Enum):
    """The effect on a job."""

    TRAINS_WRONG = "trains wrong"
    TRAINS_DIFFERENTLY = "trains differently"
    CRASHES = "crashes"
    HANGS = "hangs"
    OUT_OF_MEMORY = "out of memory"
    LEAKS = "leaks"
    SAVES_WRONG = "saves wrong"
    SAVES_DIFFERENTLY = "saves differently"
    DEFAULT_CHANGED = "default changed"
    SLOWER = "slower"
    MORE_WORK = "more work"


class Ruling(Enum):
    """The judgement on the affected releases."""

    FAULT = "fault"  #: they are wrong
    CHANGE = "change"  #: they are right, or it is a matter of taste: set what is wanted
    IMPROVEMENT = "improvement"  #: they are better


class RaisedError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error by which a job ends that has the problem."""

    error: str  #: class, without its module
    message: str = ""  #: a part of the message
    file: str = ""  #: that the traceback goes through, or a folder of it; empty if the message is telling
    phase: str = ""  #: in which memory runs out


class MeasuredSymptom(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The way in which results of a job show a problem."""

    metrics: tuple[str, ...]
    phase: str = ""  #: empty: any
    error: str = ""  #: in the failure's signature
    where: dict[str, tuple[Any, ...]] = {}  #: fact -> values of jobs that can tell
    norm_above: float | None = None  #: a gradient norm of the run, where it has any; None: whatever it is


class ReleaseRange(msgspec.Struct, frozen=True, kw_only=True):
    """The releases of one package that have the problem, as far as they were run."""

    package: str
    affected: tuple[str, ...]  #: in version order, here and below
    unaffected: tuple[str, ...]

    # Releases between two of the same answer have that answer; between two of different ones, beyond the newest and
    # before the oldest they are unknown. `matching` decides by this.


class FactCondition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact of the job that decides, by its name in `job_facts.FACTS`."""

    fact: str
    shown: tuple[Any, ...]  #: values with which the problem was seen
    hidden: tuple[Any, ...] = ()  #: values with which it was looked for and not seen
    unknown: tuple[Any, ...] = ()
    above: int | float | None = None  #: every number above it shows the problem; others, none
    others: bool = (
        False  #: True if every value that is neither hidden nor unknown shows it: the tried ones stand for "set"
    )
    text: str = ""  #: of `shown`, as the factor words it: "ZeRO stage 0, 1 or 2"


class PartnerCondition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Releases of another package beside which the problem is seen."""

    package: str
    affected: tuple[str, ...]
    unaffected: tuple[str, ...] = ()


class Remedy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A release or a setting that ends the problem, as a run showed."""

    text: str  #: "use 0.19.6", "give `use_reentrant=True`"
    package: str = ""  #: of a release to go to
    version: str = ""
    fact: str = ""  #: of a setting: the fact and the value that it takes
    value: Any = None
    ran_in: tuple[str, ...] = ()  #: releases in which the setting was run


class ScriptOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The output of the script in releases of the range's package."""

    releases: tuple[str, ...]
    exit_code: int | None
    line: str


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The runs that show it."""

    script: str = ""  #: file in results/reproducers; empty if there is none
    further_scripts: tuple[str, ...] = ()
    runs: tuple[ScriptOutput, ...] = ()
    reason: str = ""  #: what was run, where that is no output of a script here
    bundles: tuple[str, ...] = ()  #: files in results/ whose cells show it
    cells: int = 0  #: that show it
    devices: tuple[str, ...] = ()  #: device modes of these: "cpu", "sim"
    stack: str = ""  #: the partners it was run with: "torch 2.13.0, transformers 4.57.6"


class UpstreamLinks(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses upstream."""

    reported: tuple[str, ...] = ()
    introduced: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    looked_up: str = ""  #: day


class Advisory(msgspec.Struct, frozen=True, kw_only=True, dict=True):  # the dict is for what is made of it once
    """All that is known of one problem."""

    id: str  #: "DSR-2026-0007": never changes and is never given again
    title: str  #: under 90 characters
    kind: AdvisoryKind
    ruling: Ruling
    ranges: tuple[ReleaseRange, ...]  #: a stack is affected if any of these is
    conditions: tuple[FactCondition, ...] = ()  #: all of them must hold
    partners: tuple[PartnerCondition, ...] = ()  #: all of them must hold
    in_some_jobs: bool = (
        False  #: True if a job that meets the conditions may be free of it: they are needed, not enough
    )
    raises: tuple[RaisedError, ...] = ()
    shown_by: tuple[MeasuredSymptom, ...] = ()  #: any of them
    sees: str = ""  #: what the reader sees: the error's line, the loss that is 4 times as large
    detail: str = ""
    size: str = ""  #: and how it grows: "2 bytes per parameter"
    remedies: tuple[Remedy, ...] = ()  #: the best first
    evidence: Evidence = Evidence()
    references: UpstreamLinks = UpstreamLinks()
    aliases: tuple[str, ...] = ()
    published: str = ""  #: day, here and below
    modified: str = ""
    withdrawn: str = ""

    @functools.cached_property
    def packages(self) -> tuple[str, ...]:
        """The packages whose releases decide, each once."""
        found = [*(one.package for one in self.ranges), *(one.package for one in self.partners)]
        return tuple(dict.fromkeys(found))
