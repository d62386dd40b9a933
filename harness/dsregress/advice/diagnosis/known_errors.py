"""The advisories that know a crash. Pure."""

from __future__ import annotations

import builtins
import functools
import re
from collections.abc import Iterable

from dsregress.advice.diagnosis.crash import Crash, versions_in
from dsregress.advice.diagnosis.process_ends import EndKind
from dsregress.advisories.advisory import Advisory, AdvisoryKind, RaisedError
from dsregress.advisories.job_facts import Fact, OneOf, merged_facts
from dsregress.advisories.matching import (
    FRAMEWORKS,
    KnownJob,
    Match,
    Matched,
    match_advisory,
    match_facts,
)
from dsregress.advisories.raised_errors import has_message, is_telling

#: How an advisory says what the reader sees of one that takes the host's memory.
_ON_HOST = "host memory"

_TAKES_MEMORY = frozenset((AdvisoryKind.OUT_OF_MEMORY, AdvisoryKind.LEAKS))


_NO_JOB = KnownJob(versions={}, facts={})


def matching_advisories(
    crash: Crash, advisories: Iterable[Advisory], stated: KnownJob = _NO_JOB
) -> tuple[tuple[Matched, ...], tuple[Advisory, ...]]:
    """Return the advisories whose error a crash has, and that neither its text nor the ``stated`` job rules out; and those
    that are ruled out. Of a job that ran out of memory, of the card or of the host, return those as well that take
    such memory of it; of one that was killed, those that take the host's; of one that hung, those that hang."""
    job = job_of_crash(crash, stated)
    found: list[Matched] = []
    ruled_out: list[Advisory] = []
    for one in (each for each in advisories if not each.withdrawn):
        matched = match_advisory(one, job)
        may_be = any(is_raised(crash, error, one, job) for error in one.raises)
        if crash.memory is not None or crash.end is not None:  # of many causes: nothing that was not run is named
            explains = _explains(one, crash) and matched.match is Match.CONCERNED
            if (may_be and matched.match in (Match.CONCERNED, Match.DEPENDS)) or explains:
                found.append(matched)
        elif may_be and matched.match is Match.FREE:
            ruled_out.append(one)
        elif may_be:
            found.append(matched)
    return tuple(found), tuple(ruled_out)


def _explains(advisory: Advisory, crash: Crash) -> bool:
    """Return True if an advisory without an error of its own can end a job as this one ended."""
    if crash.memory is None:
        kind = crash.end.kind if crash.end is not None else None
        if kind is EndKind.TIMEOUT:
            return advisory.kind is AdvisoryKind.HANGS
        return kind is EndKind.KILLED and _takes_memory(advisory, on_host=True)
    return _takes_memory(advisory, on_host=crash.memory.where == "host")


def _takes_memory(advisory: Advisory, *, on_host: bool) -> bool:
    return advisory.kind in _TAKES_MEMORY and not advisory.raises and (_ON_HOST in advisory.sees) is on_host


def job_of_crash(crash: Crash, stated: KnownJob = _NO_JOB) -> KnownJob:
    """Return the job that a crash is of: what its text says, and what else is stated."""
    stages = crash.zero_stages
    facts = {"zero_stage": OneOf(stages)} if stages and "zero_stage" not in stated.facts else {}
    if "framework" not in stated.facts:  # an error may be of any
        facts["framework"] = OneOf(FRAMEWORKS)
    return stated.changed(versions=crash.versions, facts=facts)


def is_raised(crash: Crash, error: RaisedError, advisory: Advisory, job: KnownJob) -> bool:
    """Return True if a crash has an error of an advisory. Memory runs out for many reasons, so it takes a release that the
    advisory is about as well, and no other phase."""
    if crash.end is not None:
        return False
    if crash.memory is not None or not error.message:
        in_phase = bool(error.phase) and crash.phase in (error.phase, "")
        return _ran_out_on_card(crash) and in_phase and not job.versions.keys().isdisjoint(advisory.packages)
    if crash.error != error.error or not has_message(crash.message, error):
        return False
    if error.file and crash.frames:
        return any(frame.file.startswith(error.file) for frame in crash.frames)
    return is_telling(error) or not _is_of_python(error)


def _is_of_python(error: RaisedError) -> bool:
    """Return True for a class of Python's own, which many faults have with a short message."""
    return hasattr(builtins, error.error)


def message_alone(text: str, advisories: Iterable[Advisory]) -> Crash | None:
    """Return the crash of a text that has the message of an advisory's error without its class and without a traceback; None
    if it has none, or one of several classes. A short message of an error of Python's is of many faults."""
    found = {
        (error.error, line.strip())
        for one in advisories
        for error in one.raises
        if error.message and not one.withdrawn and (is_telling(error) or not _is_of_python(error))
        for line in text.splitlines()
        if has_message(line, error)
    }
    if len({error for error, _ in found}) != 1:
        return None
    error, message = min(found)
    return Crash(error=error, message=message, memory=None, frames=(), versions=versions_in(text))


def goes_through(crash: Crash, advisory: Advisory) -> bool:
    """Return True unless a crash has a traceback that misses the packages that an advisory is about, and that its message
    does not name: another fault can have the same message."""
    if not crash.frames:
        return True
    words = frozenset(re.findall(r"[a-z_]\w*", crash.message.lower()))
    seen = {frame.package for frame in crash.frames} | words
    # accelerate's and transformers' parts for DeepSpeed are so named
    if any("deepspeed" in frame.file for frame in crash.frames):
        seen.add("deepspeed")
    of_deepspeed = {"deepspeed"} if _takes_deepspeed(advisory) else seen
    return not seen.isdisjoint(one.package for one in advisory.ranges) and not seen.isdisjoint(of_deepspeed)


def _takes_deepspeed(advisory: Advisory) -> bool:
    return match_facts(advisory, _without_deepspeed()) is Match.FREE


@functools.cache
def _without_deepspeed() -> KnownJob:
    facts, _ = merged_facts([Fact(name="deepspeed", value=False, source="")])
    values = {name: fact.value for name, fact in facts.items()}
    return KnownJob(versions={}, facts={**values, "framework": OneOf(FRAMEWORKS)})


def _ran_out_on_card(crash: Crash) -> bool:
    return crash.memory is not None and crash.memory.where != "host"
