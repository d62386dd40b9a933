"""Groups faults with one cause, as far as their releases show it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dsregress.compare.metrics import BY_NAME
from dsregress.explore.follow_up import Change
from dsregress.explore.release_faults import Fault


def by_cause(faults: Iterable[Fault]) -> list[list[Fault]]:
    """Group faults with one cause, in the order in which they are given."""
    causes: list[list[Fault]] = []
    for fault in faults:
        home = next((cause for cause in causes if all(_have_one_cause(one, fault) for one in cause)), None)
        if home is None:
            causes.append([fault])
        else:
            home.append(fault)
    return causes


def _have_one_cause(one: Fault, other: Fault) -> bool:
    """Return True if two faults have one cause. The same error is one fault, unless it came or went in another release.
    Other failures have one cause if they are of one kind, need a value in common, and came or went in the same release."""
    if one.stack != other.stack or one.other != other.other or _kind(one) != _kind(other):
        return False
    changes = _change(one), _change(other)
    if one.is_crash:
        return None in changes or changes[0] == changes[1]
    return None not in changes and changes[0] == changes[1] and not one.needs.items().isdisjoint(other.needs.items())


def _kind(fault: Fault) -> tuple[str, ...]:
    """Return the kind of a fault. Findings of the memory oracle are of the same kind as a comparison's."""
    metric = BY_NAME[fault.question.metric]
    return (metric.fails, fault.question.phase) if metric.fails == "memory" else fault.family


def _change(fault: Fault) -> Change | None:
    change = fault.followed.change
    return change if change is not None and change.is_exact else None
