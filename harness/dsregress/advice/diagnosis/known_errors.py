"""The advisories that know a crash. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dsregress.advice.diagnosis.crash import Crash
from dsregress.advisories.advisory import Advisory, RaisedError
from dsregress.advisories.job_facts import OneOf
from dsregress.advisories.matching import Job, Match, Matched, match_advisory, packages_of_advisory
from dsregress.compare.outcomes import without_sizes

#: A shorter message is shared by many faults.
_TELLING = 36


def matching_advisories(crash: Crash, advisories: Iterable[Advisory]) -> tuple[Matched, ...]:
    """Return the advisories whose error a crash has, and that its versions and its traceback do not rule out."""
    job = job_of_crash(crash)
    found = [
        match_advisory(one, job)
        for one in advisories
        if not one.withdrawn and any(is_raised(crash, error, one) for error in one.raises)
    ]
    return tuple(one for one in found if one.match is not Match.FREE)


def job_of_crash(crash: Crash) -> Job:
    """Return the job that a crash is of, as far as its text says."""
    stages = crash.zero_stages
    return Job(versions=crash.versions, facts={"zero_stage": OneOf(stages)} if stages else {})


def is_raised(crash: Crash, error: RaisedError, advisory: Advisory) -> bool:
    """Return True if a crash has an error of an advisory. Memory runs out for many reasons, so it takes a release that the
    advisory is about as well."""
    if crash.memory is not None or not error.message:
        on_card = crash.memory is not None and crash.memory.where != "host"
        in_phase = bool(error.phase) and crash.phase == error.phase
        return on_card and in_phase and not crash.versions.keys().isdisjoint(packages_of_advisory(advisory))
    message = without_sizes(error.message)
    if crash.error != error.error or message not in without_sizes(crash.message):
        return False
    if error.file and crash.frames:
        return any(frame.file.startswith(error.file) for frame in crash.frames)
    return len(error.message) >= _TELLING
