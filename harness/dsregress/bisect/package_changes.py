"""The packages of an upgrade that make it worse: delta debugging over their changes (A. Zeller, R. Hildebrandt,
"Simplifying and isolating failure-inducing input", 2002). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from dsregress.model import Verdict


class PackageChange(msgspec.Struct, frozen=True):
    """One package of an upgrade."""

    package: str
    old: str
    new: str

    @property
    def text(self) -> str:
        """The change in words: ``peft 0.14.0 -> 0.15.0``."""
        return f"{self.package} {self.old} -> {self.new}"


class Trial(msgspec.Struct, frozen=True):
    """The old stack with some of the changes."""

    changes: tuple[PackageChange, ...]
    verdict: Verdict  #: Bad if it shows what is worse; Unknown if it cannot be built, or ends differently
    text: str  #: what was seen; empty if nothing was


#: Measures the old stack with these changes.
Try = Callable[[Sequence[PackageChange]], Trial]


class SmallestChanges(msgspec.Struct, frozen=True):
    """The fewest changes that were seen to show what is worse."""

    needed: tuple[PackageChange, ...]
    unseparated: tuple[PackageChange, ...]  #: of them, those without which nothing could be told
    trials: tuple[Trial, ...]


def smallest_changes(changes: Sequence[PackageChange], attempt: Try) -> SmallestChanges:
    """Return the fewest of ``changes``, which together show what is worse, that still show it.

    One alone explains most upgrades, so each is tried alone first; where none does, they are set back one by one.
    """
    trials: list[Trial] = []

    def record_trial(chosen: Sequence[PackageChange]) -> Trial:
        trials.append(attempt(chosen))
        return trials[-1]

    if len(changes) > 1:
        for change in changes:
            if record_trial([change]).verdict is Verdict.BAD:
                return SmallestChanges((change,), (), tuple(trials))
    needed, unseparated = list(changes), []
    for change in changes if len(changes) > 2 else ():  # of two, each alone was tried
        without = [one for one in needed if one != change]
        verdict = record_trial(without).verdict
        if verdict is Verdict.BAD:
            needed = without
        elif verdict is Verdict.UNKNOWN:
            unseparated.append(change)
    return SmallestChanges(tuple(needed), tuple(unseparated), tuple(trials))
