"""Patterns by which problems are recognized, in tables that are written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from packaging.version import Version

from dsregress.bisect.questions import Question
from dsregress.versions.releases import parsed_version


class ProblemPattern(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A finding is the problem if its release is from ``since`` to ``until``, its metric is one of ``metrics``, ``error`` is
    in its signature, and its cell has one of the values of each parameter in ``needs``."""

    package: str
    metrics: tuple[str, ...]
    since: str
    until: str  #: the last release that has it; empty: the newest known has it
    needs: dict[str, tuple[Any, ...]]  #: parameter -> values; an empty string stands for None
    error: str = ""

    def is_shown_by(self, package: str, version: str, question: Question, parameters: Mapping[str, object]) -> bool:
        """Return True if a finding in a release, on a cell with these parameters, is this problem."""
        if (package, question.metric in self.metrics) != (self.package, True) or self.error not in question.key:
            return False
        own = parsed_version(version)
        if own is None or own < Version(self.since) or (self.until and own > Version(self.until)):
            return False
        return all(parameters.get(name, "") in (*values, *_none(values)) for name, values in self.needs.items())


def _none(values: tuple[object, ...]) -> tuple[None, ...]:
    return (None,) if "" in values else ()
