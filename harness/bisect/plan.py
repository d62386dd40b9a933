"""What is sought in which list, and what the versions said."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

from harness.bisect.commit_builds import CommitSource
from harness.bisect.questions import Observation, Question
from harness.errors import UsageError
from harness.model import Stack, Verdict


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One place in the list that is searched."""

    name: str
    stack: Stack
    about: str = ""
    made_of: CommitSource | None = None  #: None for a release


@dataclasses.dataclass(frozen=True)
class SearchPlan:
    """What is sought in which list."""

    kind: str  #: releases or commits
    package: str
    versions: tuple[Candidate, ...]  #: oldest first; the ends are the first and the last
    question: Question | None  #: None: what differs most between the ends
    to: Verdict  #: Bad: the first bad version; Good: the first that is good again
    every: bool = False
    hunt: bool = False  #: the ends need not differ

    @property
    def good(self) -> int:
        """Place of the end that is taken to be good."""
        return 0 if self.to is Verdict.BAD else len(self.versions) - 1

    @property
    def bad(self) -> int:
        return len(self.versions) - 1 - self.good


@dataclasses.dataclass(frozen=True)
class VersionAnswer:
    """What one version answered."""

    answer: Verdict
    reading: Observation
    stored: bool


class VersionTester(Protocol):
    """Puts one kind of question to versions."""

    def answers(self) -> Mapping[int, VersionAnswer]:
        """All answers so far. Raises UsageError, NothingMeasured where the ends make no search."""

    def ask(self, places: Sequence[int]) -> None:
        """Find out what these versions say; two of them are the ends."""

    @property
    def asked(self) -> Question | None:
        """The question, once it is known."""


def swapped(search: SearchPlan, what: str) -> UsageError:
    """The good end is the worse one."""
    good, bad = search.versions[search.good].name, search.versions[search.bad].name
    flag = "" if search.to is Verdict.GOOD else " --fixed"
    return UsageError(
        f"good and bad are swapped: {bad} is better than {good} ({what})",
        where="bisect",
        hint=f"--good {bad} --bad {good}{flag} finds the release where that began",
    )


def same(search: SearchPlan, what: str, hint: str = "") -> UsageError:
    """The ends do not differ."""
    first, last = search.versions[0].name, search.versions[-1].name
    return UsageError(
        f"{first} and {last} do not differ {what}",
        where="bisect",
        hint=hint or f"`bisect {first}..{last}` looks for what came and went between them",
    )
