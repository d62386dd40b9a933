"""What upstream knows about a problem already: ``upstream.toml``, a table that is looked up by hand, since nothing here asks
a tracker."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import tomllib
from packaging.version import Version

from harness.bisect.questions import Question


class UpstreamProblem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry. The addresses are of issues and pull requests."""

    what: str
    package: str
    metrics: tuple[str, ...]
    since: str
    until: str  #: the last release that has it; empty: the newest known has it
    needs: dict[str, tuple[Any, ...]]  #: parameter -> values; an empty string stands for None
    looked_up: str  #: day
    error: str = ""
    reported: tuple[str, ...] = ()
    introduced: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    related: tuple[str, ...] = ()  #: about the same code, with another symptom

    @property
    def addresses(self) -> tuple[str, ...]:
        return (*self.reported, *self.introduced, *self.fixed, *self.related)

    def is_shown_by(self, package: str, version: str, question: Question, parameters: Mapping[str, Any]) -> bool:
        """Whether a finding in a release, on a cell with these parameters, is this problem."""
        if (package, question.metric in self.metrics) != (self.package, True) or self.error not in question.key:
            return False
        if not Version(self.since) <= Version(version) or (self.until and Version(version) > Version(self.until)):
            return False
        return all(parameters.get(name, "") in (*values, *_none(values)) for name, values in self.needs.items())


def _none(values: tuple[Any, ...]) -> tuple[None, ...]:
    return (None,) if "" in values else ()


@functools.cache
def known() -> tuple[UpstreamProblem, ...]:
    """The whole table."""
    text = (Path(__file__).parent / "upstream.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text)["problem"], tuple[UpstreamProblem, ...])


def problem_of(package: str, version: str, question: Question, parameters: Mapping[str, Any]) -> UpstreamProblem | None:
    """The first entry that a finding shows; None where upstream is not known to know it."""
    return next((one for one in known() if one.is_shown_by(package, version, question, parameters)), None)
