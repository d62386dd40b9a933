"""``questions.toml``: questions that engineers have, for every surface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from dsregress.advisories.auditing import StatedJob
from dsregress.advisories.job_facts import merged_facts, said_fact
from dsregress.advisories.matching import Matched
from tests.paths import ROOT


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job, where it goes, and what is answered."""

    name: str
    job: Mapping[str, str]
    facts: tuple[str, ...]
    to: Mapping[str, str] = {}
    verdict: str = ""
    says: str = ""  #: the first line, where it has no number that grows with the advisories
    against: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()  #: that are conditions
    instead: Mapping[str, str] = {}
    gained: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()  #: releases on the way
    concerned: tuple[str, ...] = ()  #: of a job as it is


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    question: tuple[Question, ...]


_FILE = ROOT / "tests" / "unit" / "advisories" / "questions.toml"
QUESTIONS = msgspec.toml.decode(_FILE.read_bytes(), type=_Table).question


def ids(found: Iterable[Matched]) -> tuple[str, ...]:
    return tuple(one.advisory.id for one in found)


def stated(question: Question) -> StatedJob:
    facts, _ = merged_facts([], [said_fact(text) for text in question.facts])
    return StatedJob(versions=question.job, facts=facts)
