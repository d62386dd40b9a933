"""Causes before what follows from them: what is loaded, then what is fed, what trains, what comes out, what is saved, and at
last what it costs."""

from __future__ import annotations

from dsregress.compare.metrics import (
    EMPTY_FILE,
    ERRORS,
    FED_DIFFERENCE,
    LOADED_OTHERWISE,
    LOGGED_DIFFERENCE,
    RESUMED_DATA,
    SAVED_DIFFERENCE,
    START_WEIGHTS,
    STEPS_TAKEN,
    TRAINED_WEIGHTS,
    TRAINING_DIFFERENCE,
    UNSAVED,
    WEIGHT_PRECISION,
)
from dsregress.model import Finding

#: Metrics of findings before a first step, in their order: all else, costs included, may follow from them.
_OF_THE_JOB = [one.name for one in (WEIGHT_PRECISION, START_WEIGHTS, RESUMED_DATA, FED_DIFFERENCE, TRAINED_WEIGHTS)]

#: The distances from the truth say more than those from the baseline. They have no order of their own.
_OF_TRAINING = (
    frozenset(metric.name for metric in ERRORS),
    {TRAINING_DIFFERENCE.name, STEPS_TAKEN.name, LOGGED_DIFFERENCE.name},
    {EMPTY_FILE.name, UNSAVED.name, LOADED_OTHERWISE.name, SAVED_DIFFERENCE.name},
)


def is_of_the_job(found: Finding) -> bool:
    """Return True if the finding is on what is trained, before any training."""
    return found.metric in _OF_THE_JOB


def causal_position(found: Finding) -> int:
    """Return the place of a finding in the chain, causes first. What has no place of its own comes last."""
    if is_of_the_job(found):
        return _OF_THE_JOB.index(found.metric)
    places = (at for at, names in enumerate(_OF_TRAINING) if found.metric in names)
    return len(_OF_THE_JOB) + next(places, len(_OF_TRAINING))


def follows_from(found: Finding, cause: Finding) -> bool:
    """Return True if the finding may follow from ``cause`` in the same run. A cost follows from another job alone."""
    if causal_position(found) <= causal_position(cause):
        return False
    is_cost = causal_position(found) == len(_OF_THE_JOB) + len(_OF_TRAINING)
    return is_of_the_job(cause) or not is_cost
