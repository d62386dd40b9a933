"""Match stored answers to workloads, findings and questions. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dsregress.advisories.measured_jobs import UNNAMED
from dsregress.bisect import questions
from dsregress.bisect.questions import Question
from dsregress.compare.metrics import BY_NAME as BY_METRIC
from dsregress.errors import UsageError
from dsregress.model import Finding, variant_values
from dsregress.probe.factors import BY_NAME, FACTORS
from dsregress.probe.scenario import variant_id


def is_alike_asked(one: Question, other: Question) -> bool:
    """Return True if two questions are about the same metric or oracle, key and phase."""
    return judged_cells(one.metric) == judged_cells(other.metric) and one.phase == other.phase and one.key == other.key


def has_all(parameters: Mapping[str, object], variant: str) -> bool:
    """Return True if a workload has every value that a variant of a simplest scenario changes, and its ZeRO stage, because
    each stage is different code."""
    named = {"zero_stage": str(BY_NAME["zero_stage"].simplest), **variant_values(variant)}
    return all(meets({**UNNAMED, **parameters}, name, text) for name, text in named.items())


def is_alike(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Return True if two workloads have the same value of every factor."""
    return all(factor.value_in(one) == factor.value_in(other) for factor in FACTORS)


def meets(values: Mapping[str, object], name: str, text: str) -> bool:
    """Return True if a parameter has the value that ``text`` spells; for a counted factor, at least that value."""
    if name not in values:
        return False
    value = values[name]
    if name in BY_NAME and BY_NAME[name].counted and text.isdecimal():
        return isinstance(value, int) and value >= int(text)
    return variant_id({name: value}) == f"{name}={text}"


def answers_by(found: Finding, question: Question) -> bool:
    """Return True if a finding is by the metric of a question, or by an oracle that judges it, and mentions its key. If the
    question names no phase, the finding may be of any."""
    if judged_cells(found.metric) != judged_cells(question.metric) or question.phase not in ("", found.phase):
        return False
    return question.key in f"{found.value} {found.message}"


def judged_cells(metric: str) -> str:
    """Return the metric from which an oracle's metric is derived; any other metric is returned as it is."""
    return BY_METRIC[metric].explained_by or metric


def question_of(metric: str) -> Question | None:
    """Return the question that a stored answer names; None if this version has no question of that name."""
    try:
        return questions.parse_question(metric)
    except UsageError:  # of another version
        return None
