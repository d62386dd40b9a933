"""The result of a bisection: the versions that were measured, their answers, and the changes of the answer."""

from __future__ import annotations

import msgspec

from dsregress.bisect.halving import Transition
from dsregress.model import Verdict


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One version in the list that is searched, and its answer if it was tested."""

    name: str  #: ``0.16.2``, or the start of a commit's hash
    stack: str  #: id
    cell: str  #: id
    about: str = ""  #: of a commit its date and subject
    answer: Verdict | None = None  #: None where it was not tested
    value: float | str | None = None  #: of the metric; None if it has none
    text: str = ""  #: the value in words, or why there is none
    stored: bool = False  #: answered by a result that was stored before


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """One list, searched: of releases, or of commits."""

    kind: str  #: releases or commits
    package: str
    metric: str  #: the question, as --metric takes it
    title: str  #: the same in words
    unit: str
    to: Verdict  #: Bad: the first bad one was sought; Good: the first that is good again
    every: bool  #: all changes were sought
    probes: tuple[Probe, ...]  #: all of the list, in order
    changes: tuple[Transition, ...]  #: by index in ``probes``
    runs: int  #: versions that were measured now
    took_s: float
    notes: tuple[str, ...] = ()
    met: tuple[str, ...] = ()  #: other problems of the versions that were measured, the gravest first, with their ends
    hunt: bool = False  #: the ends were not marked good and bad, so the end of the fault was sought as well
    files: tuple[str, ...] = ()  #: files changed upstream with the change that was sought: ``+12 -3 FILE``
    sites: tuple[str, ...] = ()  #: the code that holds the extra bytes, one line each
    patch: tuple[str, ...] = ()  #: of commits the changed lines themselves, where they are few

    @property
    def found(self) -> Transition | None:
        """The change that was sought."""
        return next((change for change in self.changes if change.to is self.to), None)

    @property
    def undone(self) -> Transition | None:
        """The change that ended the found one, if it was sought as well."""
        found = self.found
        if found is None or not self.hunt:
            return None
        return next((change for change in self.changes if change.before >= found.after), None)

    @property
    def is_decided(self) -> bool:
        """True if the search has an answer: the exact version of the change, or that nothing changed. With ``every``, for
        all changes."""
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
        """True if every search has an answer."""
        return all(course.is_decided for course in self.courses)
