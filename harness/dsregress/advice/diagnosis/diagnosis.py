"""All that is known of a pasted crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dsregress.advice.diagnosis.crash import Crash
from dsregress.advice.diagnosis.failures import MatchedProblem
from dsregress.advice.diagnosis.tensor_sizes import ModelShape, SizeMatch
from dsregress.advice.gpus import Card, catalogue
from dsregress.advisories.advisory import Advisory
from dsregress.advisories.matching import Matched
from dsregress.compare import ProblemKind

#: The most by which a card's capacity in a message may differ from the catalogue's.
_NEAR_BYTES = 64 << 20


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``diagnose``."""

    crash: Crash
    package: str  #: in which the traceback ends, else the one whose releases are compared
    beside: str  #: its configured release, to compare with; empty where its releases are compared anyway
    card: Card | None  #: given, or the only one with the capacity in the message
    model: ModelShape | None  #: of the scenario, or named in the text
    sizes: tuple[SizeMatch, ...]  #: what explains the request
    problems: tuple[MatchedProblem, ...]  #: the likeliest first
    known: tuple[Matched, ...]  #: advisories; if there are any, no stored failure is searched
    ruled_out: tuple[Advisory, ...] = ()  #: advisories with such an error that releases or facts of the job rule out
    failures: int  #: the number of stored failures that were searched
    scenario: str  #: given; empty if none is
    versions: Mapping[str, str] = {}  #: the releases of the job: of the text, else as they were stated

    @property
    def is_known(self) -> bool:
        """Return True if anything stored or computed explains the crash."""
        return bool(self.sizes or self.problems or self.known)


def card_of(crash: Crash) -> Card | None:
    """Return the only card of the catalogue with the capacity in the message; None if several have it, or none."""
    if crash.memory is None or crash.memory.capacity is None:
        return None
    capacity = crash.memory.capacity.nbytes
    near = [one for one in catalogue().values() if abs(one.usable_bytes - capacity) <= _NEAR_BYTES]
    return near[0] if len(near) == 1 else None


def likeliest(problems: Sequence[MatchedProblem]) -> tuple[MatchedProblem, ...]:
    """Return the likeliest problem of each kind and phase. Prefer one that the text's version has, then one with a release
    without it, then one of the same place in the code, then the one measured on most releases."""

    def rank(one: MatchedProblem) -> tuple[bool, bool, bool, bool, int]:
        elsewhere = (one.has_version is False, one.has_version is None)
        return *elsewhere, one.beside is None, not one.is_same_place, -len(one.comparison.stacks)

    kept: dict[tuple[ProblemKind, str], MatchedProblem] = {}
    for one in sorted(problems, key=rank):
        kept.setdefault((one.assessment.kind, one.assessment.problem.worst.phase), one)
    return tuple(kept.values())
