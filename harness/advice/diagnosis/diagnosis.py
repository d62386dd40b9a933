"""All that is known of a pasted crash."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.advice.diagnosis.crash import Crash
from harness.advice.diagnosis.failures import KnownFailure, MatchedProblem
from harness.advice.diagnosis.sizes import ModelShape, SizeMatch
from harness.advice.gpus import Card, catalogue
from harness.compare import ProblemKind

#: How far what a message calls a card's capacity may be from what the catalogue has.
_NEAR_BYTES = 64 << 20


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``diagnose``."""

    crash: Crash
    package: str  #: whose releases are compared
    card: Card | None  #: given, or the only one of the capacity that the message has
    model: ModelShape | None  #: of the scenario, or named in the text
    sizes: tuple[SizeMatch, ...]  #: what explains the request
    problems: tuple[MatchedProblem, ...]  #: the likeliest first
    known: tuple[KnownFailure, ...]
    failures: int  #: stored ones that the crash was looked for among
    scenario: str  #: given; empty where none is

    @property
    def is_known(self) -> bool:
        """Whether anything stored or computed answers."""
        return bool(self.sizes or self.problems or self.known)


def card_of(crash: Crash) -> Card | None:
    """The card of the catalogue that has the capacity of a message; None where several have, or none."""
    if crash.memory is None or crash.memory.capacity is None:
        return None
    capacity = crash.memory.capacity.nbytes
    near = [one for one in catalogue().values() if abs(one.usable_bytes - capacity) <= _NEAR_BYTES]
    return near[0] if len(near) == 1 else None


def likeliest(problems: Sequence[MatchedProblem]) -> tuple[MatchedProblem, ...]:
    """One of each kind and phase: one that the text's version has rather than another, then one with a release beside it,
    one of the same place in the code, and the one that was measured on most releases."""

    def rank(one: MatchedProblem) -> tuple[bool, bool, bool, bool, int]:
        elsewhere = (one.has_version is False, one.has_version is None)
        return *elsewhere, one.beside is None, not one.is_same_place, -len(one.comparison.stacks)

    kept: dict[tuple[ProblemKind, str], MatchedProblem] = {}
    for one in sorted(problems, key=rank):
        kept.setdefault((one.assessment.kind, one.assessment.problem.worst.phase), one)
    return tuple(kept.values())
