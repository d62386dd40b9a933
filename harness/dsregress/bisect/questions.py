"""One question about many versions: the value of a result that answers it, and the rule by which the answer is bad. Pure.

The question of a bisection is a metric as ``--json`` names it (``backward.device_retained_bytes``), or ``outcome``,
``configuration:KEY``, ``warnings:TEXT``. It is answered by comparison with a good and a bad observation: a value nearer to
the bad one is bad. So small drifts between the two do not count, and no limit has to be chosen. While only a good
observation is known, bad is what the comparison's thresholds call relevant, in the direction that is worse.
"""

from __future__ import annotations

import json
import math

import msgspec

from dsregress.compare.comparison import Comparison, DetailOf
from dsregress.compare.metrics import (
    BY_NAME,
    CONFIGURATION,
    METRICS,
    OUTCOME,
    PROCESSOR_TIME,
    STEP_TIME,
    WARNINGS,
    Direction,
    Metric,
)
from dsregress.compare.outcomes import signature_text, stage_of
from dsregress.compare.result_pairs import as_compared
from dsregress.compare.result_summary import summarize
from dsregress.config.thresholds import Thresholds
from dsregress.errors import UsageError, no_such
from dsregress.model import Finding, OutOfMemory, Passed, Result, Verdict, is_measurement
from dsregress.probe.border.wire import PHASES, REGULAR_PHASES
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import quantity, shortened

#: A setting that a version does not have.
ABSENT = "absent"

_WHERE = "--metric"


class Question(msgspec.Struct, frozen=True):
    """The metric that a bisection asks about."""

    metric: str
    phase: str = ""
    key: str = ""  #: the setting of ``configuration``, the text of ``warnings``, a part of the signature of ``outcome``

    @property
    def name(self) -> str:
        """The question as ``--metric`` takes it."""
        if self.key:
            return f"{self.metric}:{self.key}"
        return BY_NAME[self.metric].flat_name(self.phase)

    @property
    def is_timed(self) -> bool:
        """True if no single measurement answers it."""
        return self.metric == STEP_TIME.name

    @property
    def title(self) -> str:
        """The question in words."""
        title = BY_NAME[self.metric].title
        return f"{title}: {self.key}" if self.key else f"{title}, {self.phase}" if self.phase else title


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one result to a question."""

    value: float | str | None  #: a text if it is not a number; None if the result has no answer
    text: str  #: the value in words, or why there is none

    @property
    def number(self) -> float:
        """The value as a number; NaN for a text."""
        return self.value if isinstance(self.value, float) else math.nan


def parse_question(text: str) -> Question:
    """Return the question that ``text`` spells. Raise UsageError, naming the metrics."""
    head, colon, key = text.partition(":")
    phase, dot, name = head.rpartition(".")
    if name not in BY_NAME or (dot and phase not in PHASES):
        known = [*_examples(), OUTCOME.name, f"{CONFIGURATION.name}:KEY", f"{WARNINGS.name}:TEXT"]
        raise no_such("metric", text, known, where=_WHERE)
    metric = BY_NAME[name]
    if metric is PROCESSOR_TIME:
        raise UsageError(f"{name} alone is not searched by", where=_WHERE, hint=f"use {STEP_TIME.name}")
    if metric.direction is Direction.NEUTRAL and metric.unit:
        raise UsageError(f"{name} is reported, not judged", where=_WHERE, hint=f"use {STEP_TIME.name}")
    if metric.example_key and not key:
        raise UsageError(f"{name} needs a key", where=_WHERE, hint=f"write e.g. {name}:{metric.example_key}")
    if colon and not metric.example_key and metric is not OUTCOME:
        raise UsageError(f"{name} has nothing behind a colon", where=_WHERE, hint=f"write {head}")
    if metric.per_phase and not phase:
        raise UsageError(
            f"{name} is measured by phase",
            where=_WHERE,
            hint=f"write e.g. backward.{name}; phases: {', '.join(PHASES)}",
        )
    if phase and not metric.per_phase:
        raise UsageError(f"{name} has no phases", where=_WHERE, hint=f"write {name}")
    return Question(name, phase, key)


def _examples() -> list[str]:
    judged = [m for m in METRICS if m.direction is not Direction.NEUTRAL and m is not PROCESSOR_TIME]
    return [
        metric.flat_name(phase) for metric in judged for phase in (REGULAR_PHASES[1:] if metric.per_phase else ("",))
    ]


def question_of_finding(comparison: Comparison, stack: str) -> tuple[Question, Finding] | None:
    """Return the worst relevant finding on a stack and its question; None if nothing relevant is worse or better. A changed
    setting or a new warning is neither: --metric has to name it."""
    for group in comparison.groups:
        found = group.headline
        if found.stack == stack and found.relevant and found.kind != "changed":
            metric = STEP_TIME if found.metric == PROCESSOR_TIME.name else BY_NAME[found.metric]
            return Question(metric.name, found.phase if metric.per_phase else ""), found
    return None


def observe(question: Question, result: Result, detail_of: DetailOf) -> Observation:
    """Return the answer of a result. As in every comparison, a cell that cannot be simulated has none."""
    result = as_compared(result)
    if question.metric == OUTCOME.name:
        return _observe_outcome(result)
    if not isinstance(result.outcome, Passed):
        return Observation(value=None, text=outcome_text(result.outcome))
    if question.metric in (CONFIGURATION.name, WARNINGS.name):
        detail = detail_of(result)
        if detail is None:
            return Observation(value=None, text="its details are missing; --fresh measures again")
        if question.metric == WARNINGS.name:
            text = "warns" if any(question.key in warning for warning in detail.warnings) else "does not warn"
            return Observation(value=text, text=text)
        there = question.key in detail.configuration
        text = json.dumps(detail.configuration[question.key], sort_keys=True, default=str) if there else ABSENT
        return Observation(value=text, text=shortened(text, 60))
    value = summarize(result).flat().get(question.name)
    if value is None:
        return Observation(value=None, text=f"{question.name} was not measured")
    return Observation(value=float(value), text=quantity(value, BY_NAME[question.metric].unit))


def _observe_outcome(result: Result) -> Observation:
    outcome = result.outcome
    text = outcome_text(outcome)
    if not is_measurement(outcome):
        return Observation(value=None, text=text)
    if isinstance(outcome, Passed):
        return Observation(value="passed", text=text)
    kind = "out of memory" if isinstance(outcome, OutOfMemory) else f"{stage_of(outcome)}: {signature_text(outcome)}"
    return Observation(value=kind, text=text)


def judge_observation(
    question: Question, observation: Observation, good: Observation, bad: Observation | None, thresholds: Thresholds
) -> Verdict:
    """Return Good if the observation is like the good one, Bad if it is like the bad one."""
    if observation.value is None or good.value is None:
        return Verdict.UNKNOWN
    if isinstance(observation.value, str) or isinstance(good.value, str):
        return _judge_text(question, observation, good, bad)
    metric, value = BY_NAME[question.metric], observation.number
    if metric.direction is Direction.AT_MOST_ONE:
        return Verdict.GOOD if value <= 1 else Verdict.BAD  # not a number is bad
    if bad is None or bad.value is None:
        return Verdict.BAD if _is_worse(metric, value, good.number, thresholds) else Verdict.GOOD
    return Verdict.BAD if abs(value - bad.number) < abs(value - good.number) else Verdict.GOOD


def _judge_text(question: Question, observation: Observation, good: Observation, bad: Observation | None) -> Verdict:
    if observation.value == good.value:
        return Verdict.GOOD
    if question.metric == OUTCOME.name:
        if question.key:
            return Verdict.BAD if question.key in observation.text else Verdict.UNKNOWN
        if bad is not None and observation.value != bad.value:
            return Verdict.UNKNOWN  # it ends elsewhere, and might have come to this
    return Verdict.BAD


def _is_worse(metric: Metric, value: float, good: float, thresholds: Thresholds) -> bool:
    return value > good and metric.relevant(value, good, thresholds)


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of the good and the bad end of a search."""

    differ: bool
    swapped: bool = False  #: they differ, and the good one is the worse


def question_ends(question: Question, good: Observation, bad: Observation, thresholds: Thresholds) -> Ends:
    """Compare the ends of a search. Both observations have values."""
    if isinstance(good.value, str) or isinstance(bad.value, str):
        swapped = question.metric == OUTCOME.name and bad.value == "passed" != good.value
        if question.metric == OUTCOME.name and question.key and not swapped:
            return Ends(differ=good.value != bad.value and question.key in bad.text)
        return Ends(differ=good.value != bad.value, swapped=swapped)
    metric, low, high = BY_NAME[question.metric], good.number, bad.number
    if metric.direction is Direction.AT_MOST_ONE:
        return Ends(differ=(low <= 1) != (high <= 1), swapped=not low <= 1 and high <= 1)
    if _is_worse(metric, high, low, thresholds):
        return Ends(differ=True)
    return Ends(differ=(swapped := _is_worse(metric, low, high, thresholds)), swapped=swapped)


def is_between(observation: Observation, good: Observation, bad: Observation) -> bool:
    """Return True if a value is far from both ends (over a quarter of their distance): there may be more than one change."""
    if not all(isinstance(each.value, float) for each in (observation, good, bad)):
        return observation.value is not None and observation.value not in (good.value, bad.value)
    distance = abs(bad.number - good.number) / 4
    return min(abs(observation.number - good.number), abs(observation.number - bad.number)) > distance
