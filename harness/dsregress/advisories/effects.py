"""The effect of an advisory on a job that has it. Pure."""

from __future__ import annotations

from dsregress.advisories.advisory import Advisory, AdvisoryKind, Ruling

_COSTS = frozenset((AdvisoryKind.SLOWER, AdvisoryKind.MORE_WORK))
_ENDS_THE_JOB = frozenset((AdvisoryKind.CRASHES, AdvisoryKind.HANGS, AdvisoryKind.OUT_OF_MEMORY))
_WRONG = frozenset((AdvisoryKind.TRAINS_WRONG, AdvisoryKind.SAVES_WRONG))


def is_cost(advisory: Advisory) -> bool:
    """Return True if an advisory is only of time or work."""
    return advisory.kind in _COSTS


def ends_the_job(advisory: Advisory) -> bool:
    """Return True if a job that has it does not train."""
    return advisory.kind in _ENDS_THE_JOB


def is_grave(advisory: Advisory) -> bool:
    """Return True if a job that has it does not train, or trains or saves what is wrong."""
    return ends_the_job(advisory) or advisory.kind in _WRONG


def decides(advisory: Advisory) -> bool:
    """Return True for a fault that is no cost, for a default that changed, and for a change that ends the job."""
    if is_cost(advisory):
        return False
    ends_or_resets = ends_the_job(advisory) or advisory.kind is AdvisoryKind.DEFAULT_CHANGED
    return advisory.ruling is Ruling.FAULT or (advisory.ruling is Ruling.CHANGE and ends_or_resets)
