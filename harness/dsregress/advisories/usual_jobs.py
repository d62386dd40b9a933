"""The faults that a job usually has: what decides was not stated, and most jobs have it. Pure.

Such a fault is not assumed. But neither is there a yes without it.
"""

from __future__ import annotations

from dsregress.advisories.advisory import FactCondition
from dsregress.advisories.effects import decides, is_grave
from dsregress.advisories.job_facts import USUAL, OneOf, chosen_value
from dsregress.advisories.matching import KnownJob, Match, Matched, condition_shows


def usually_concerns(one: Matched, job: KnownJob) -> bool:
    """Return True for a grave fault that depends on nothing but facts that most jobs have as the fault needs them."""
    is_open = one.match is Match.DEPENDS and not one.open_packages
    return (
        is_open and decides(one.advisory) and is_grave(one.advisory) and all(_is_usual(each, job) for each in one.open)
    )


def _is_usual(condition: FactCondition, job: KnownJob) -> bool:
    had = {*job.versions, *job.ranges}
    found = (one for one in USUAL.get(condition.fact, ()) if had >= {*one.beside} and had.isdisjoint(one.unless))
    usual = next(found, None)
    if usual is None:
        return False
    stated = chosen_value(condition.fact, job.facts, job.versions) if condition.fact in job.facts else None
    values = [one for one in usual.values if not isinstance(stated, OneOf) or one in stated.values]
    return bool(values) and all(condition_shows(condition, one) for one in values)
