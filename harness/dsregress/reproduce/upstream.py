"""Problems known upstream: ``upstream.toml``, a table maintained by hand, since the harness queries no tracker."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec

from dsregress.bisect.questions import Question
from dsregress.reproduce.patterns import ProblemPattern


class UpstreamProblem(ProblemPattern, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One known problem. Its addresses are of issues and pull requests."""

    what: str
    looked_up: str  #: day
    reported: tuple[str, ...] = ()
    introduced: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    related: tuple[str, ...] = ()  #: about the same code, with another symptom

    @property
    def addresses(self) -> tuple[str, ...]:
        """All addresses."""
        return (*self.reported, *self.introduced, *self.fixed, *self.related)


@functools.cache
def known() -> tuple[UpstreamProblem, ...]:
    """Return the whole table."""
    content = (Path(__file__).parent / "upstream.toml").read_bytes()
    return msgspec.toml.decode(content, type=dict[str, tuple[UpstreamProblem, ...]])["problem"]


def problem_of(
    package: str, version: str, question: Question, parameters: Mapping[str, object]
) -> UpstreamProblem | None:
    """Return the first known problem that a finding shows; None if upstream is not known to have it."""
    return next((one for one in known() if one.is_shown_by(package, version, question, parameters)), None)
