"""The plan of a search, its versions, and the protocol of their testers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

from dsregress.bisect.questions import Observation, Question
from dsregress.errors import UsageError
from dsregress.model import Stack, Verdict
from dsregress.run.commit_builds import CommitSource


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One release or commit in the list that is searched."""

    name: str  #: ``0.16.2``, or the start of a commit's hash
    stack: Stack
    about: str = ""  #: of a commit its date and subject
    source: CommitSource | None = None  #: None for a release


@dataclasses.dataclass(frozen=True)
class SearchPlan:
    """The list to search and the change to find in it."""

    kind: str  #: releases or commits
    package: str
    versions: tuple[Candidate, ...]  #: oldest first; the ends are the first and the last
    question: Question | None  #: None: the largest difference between the ends
    to: Verdict  #: Bad: find the first bad version; Good: the first that is good again
    every: bool = False  #: find all changes
    hunt: bool = False  #: the ends need not differ

    @property
    def good(self) -> int:
        """Index of the end that is taken to be good."""
        return 0 if self.to is Verdict.BAD else len(self.versions) - 1

    @property
    def bad(self) -> int:
        """Index of the other end."""
        return len(self.versions) - 1 - self.good


@dataclasses.dataclass(frozen=True)
class VersionAnswer:
    """The verdict on one version, and its basis."""

    verdict: Verdict
    observation: Observation
    stored: bool  #: by a result that was stored before the search began


class VersionTester(Protocol):
    """Decides whether versions are good or bad, by one kind of measurement."""

    @property
    def question(self) -> Question | None:
        """The question that is tested; None until it has been chosen."""

    def answers(self) -> Mapping[int, VersionAnswer]:
        """Return all answers so far, by index. Raise UsageError if the ends do not span a change, NothingMeasured if one of
        them has no value."""

    def test(self, indexes: Sequence[int]) -> None:
        """Measure these versions; two indexes are the two ends."""


def swapped_ends(plan: SearchPlan, what: str) -> UsageError:
    """Return the error for a good end that is worse than the bad one."""
    good, bad = plan.versions[plan.good].name, plan.versions[plan.bad].name
    flag = "" if plan.to is Verdict.GOOD else " --fixed"
    return UsageError(
        f"good and bad are swapped: {bad} is better than {good} ({what})",
        where="bisect",
        hint=f"--good {bad} --bad {good}{flag} finds the release where that began",
    )


def equal_ends(plan: SearchPlan, what: str, hint: str = "") -> UsageError:
    """Return the error for ends that do not differ."""
    first, last = plan.versions[0].name, plan.versions[-1].name
    return UsageError(
        f"{first} and {last} do not differ {what}",
        where="bisect",
        hint=hint or f"`bisect {first}..{last}` looks for a change that came and went between them",
    )
