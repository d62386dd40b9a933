"""What a bisection found: the versions that were measured, what each answered, and where the answer changes."""

from __future__ import annotations

import msgspec

from harness.bisect.halving import Transition
from harness.model import Verdict


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One version in the list that is searched, and its answer if it was tested."""

    name: str  #: ``0.16.2``, or the start of a commit's hash
    stack: str  #: id
    cell: str  #: id
    about: str = ""  #: of a commit its date and subject
    answer: Verdict | None = None  #: None where it was not tested
    value: float | str | None = None  #: of the metric; None where there is none
    text: str = ""  #: the value in words, or why there is none
    stored: bool = False  #: answered by a result that was there before


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """One list, searched: of releases, or of commits."""

    kind: str  #: releases or commits
    package: str
    metric: str  #: the question, as --metric takes it
    title: str  #: the same in words
    unit: str
    to: Verdict  #: Bad: the first bad one was sought; Good: the first that is good again
    every: bool  #: whether all changes were sought
    probes: tuple[Probe, ...]  #: all of the list, in order
    changes: tuple[Transition, ...]  #: by index in ``probes``
    runs: int  #: versions that were measured now
    took_s: float
    notes: tuple[str, ...] = ()
    met: tuple[str, ...] = ()  #: other problems of the versions that were measured, the gravest first, with their ends
    hunt: bool = False  #: nothing was said about the ends, so where the fault ended was sought as well
    files: tuple[str, ...] = ()  #: what changed upstream with the change that was sought: ``+12 -3 FILE``
    sites: tuple[str, ...] = ()  #: the code that holds the extra bytes, one line each
    patch: tuple[str, ...] = ()  #: of commits the changed lines themselves, where they are few

    @property
    def found(self) -> Transition | None:
        """The change that was sought."""
        return next((change for change in self.changes if change.to is self.to), None)

    @property
    def undone(self) -> Transition | None:
        """Where what was found ended, if that was sought as well."""
        found = self.found
        if found is None or not self.hunt:
            return None
        return next((change for change in self.changes if change.before >= found.after), None)

    @property
    def is_decided(self) -> bool:
        """Whether there is an answer: the change to the version, or that there is none. With ``every``, of all changes."""
        wanted = self.changes if self.every else [change for change in (self.found, self.undone) if change]
        return all(change.is_exact for change in wanted)


class Bisection(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one bisection."""

    workload: str
    good: str
    bad: str
    reason: str  #: how the question was chosen; empty if the user did
    courses: tuple[SearchResult, ...]  #: releases, commits: each within what the one before it left

    @property
    def is_decided(self) -> bool:
        return all(course.is_decided for course in self.courses)
