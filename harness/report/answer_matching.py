"""Whether a stored answer is about a workload, a finding or a question. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.bisect import questions
from harness.bisect.questions import Question
from harness.compare.metrics import BY_NAME as BY_METRIC
from harness.errors import UsageError
from harness.model import Finding, variant_values
from harness.probe.scenario import variant_id
from harness.reproduce.factors import BY_NAME, FACTORS, STAGE

#: What workloads that do not name these parameters do.
UNNAMED = {"model_outputs": "all", "integration": "transformers"}


def is_alike_asked(one: Question, other: Question) -> bool:
    """Whether two questions are about the same, in the same phase."""
    return judged(one.metric) == judged(other.metric) and one.phase == other.phase and one.key == other.key


def has_all(parameters: Mapping[str, Any], variant: str) -> bool:
    """Whether a workload has whatever is not simplest in a variant of a simplest scenario, and its ZeRO stage, as each is
    another code."""
    named = {STAGE.name: str(STAGE.values[0]), **variant_values(variant)}
    return all(meets({**UNNAMED, **parameters}, name, text) for name, text in named.items())


def is_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two workloads have the same factors."""
    return all(factor.value_in(one) == factor.value_in(other) for factor in FACTORS)


def meets(values: Mapping[str, Any], name: str, text: str) -> bool:
    """Whether a parameter has a value; of what is counted, at least that."""
    if name not in values:
        return False
    value = values[name]
    if name in BY_NAME and BY_NAME[name].counted and text.isdecimal():
        return isinstance(value, int) and value >= int(text)
    return variant_id({name: value}) == f"{name}={text}"


def answers_by(found: Finding, question: Question) -> bool:
    """Whether a finding is one by the metric of a question, or by an oracle that judges it. Of what has no phases, a finding
    may still name one."""
    if judged(found.metric) != judged(question.metric) or question.phase not in ("", found.phase):
        return False
    return question.key in f"{found.value} {found.message}"


def judged(metric: str) -> str:
    """What an oracle's metric is derived from; any other is itself."""
    return BY_METRIC[metric].explained_by or metric


def question_of(metric: str) -> Question | None:
    """The question that a stored answer names; None where this version has none by that name."""
    try:
        return questions.parse(metric)
    except UsageError:  # of another version
        return None
