"""A finding as a test of cells: whether they show it, measured in the ordinary way."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from dsregress import compare
from dsregress.bisect import questions
from dsregress.bisect.questions import Observation, Question
from dsregress.compare.comparison import DetailOf
from dsregress.compare.metrics import BY_NAME, OUTCOME, Direction
from dsregress.compare.outcomes import telling_part
from dsregress.config.settings import Settings
from dsregress.errors import NothingMeasured
from dsregress.model import Cell, Passed, Result, Stack, Verdict, variant_values
from dsregress.probe.factors import BY_NAME as FACTORS
from dsregress.probe.factors import SIZES
from dsregress.probe.scenario import SHAPE, Scenario, variant_id
from dsregress.reproduce.factors import SIMPLEST_OF
from dsregress.run.session import Session
from dsregress.store import newest_by_cell

#: Device mode of the cells: real ranks at a small size.
DEVICE = "cpu"

#: A longer variant name would make the file name, with its other parts, too long.
_LONGEST = 150

#: Characters of an error that identify it.
_SIGNATURE = 40

#: Excess over the other release, as a share of the excess of the finding's own cell: from the first share on it is the
#: finding, up to the second it is not. A smaller model, or fewer layers, has less of it.
_SHOWN, _HIDDEN = 1 / 4, 1 / 32

#: A distance from the truth is sound up to this share of the tolerance. From there to the tolerance it may be the finding,
#: grown smaller, unless the other release is nearly as far from the truth.
_SOUND, _NEARLY = 1 / 4, 1 / 2

#: Cells of the bad release that are measured before the other release measures them.
_AT_ONCE = 8


class ReleasePair:
    """One question about one pair of releases, as a test of any cell. Without the other release, the bad release is judged
    by its own oracles and its outcome."""

    def __init__(
        self,
        question: Question,
        bad: Stack,
        good: Stack | None,
        session: Session,
        scenario: Scenario,
        detail_of: DetailOf,
    ) -> None:
        """Start nothing. ``scenario`` is that of the simplest values."""
        self.question = question
        self._bad, self._good = bad, good
        self._session = session
        self._scenario = scenario
        self._detail_of = detail_of
        self._seen: dict[str, Result] = {}
        needs_truth = BY_NAME[question.metric].direction is Direction.AT_MOST_ONE
        self._left_out = {"judged": False} if not needs_truth and "judged" in scenario.parameters else {}
        self._own_excess: float | None = None  #: of the finding's own cell; None where no figures are compared

    @property
    def trials(self) -> int:
        """Number of cells whose results were read, stored ones included."""
        return len(self._seen)

    @property
    def cells(self) -> Collection[str]:
        """Ids of these cells."""
        return self._seen.keys()

    def shows(self, parameter_sets: Sequence[Mapping[str, object]]) -> list[Verdict]:
        """Return Bad for each set with which the bad release shows the finding and the other does not. Implements
        `dsregress.reproduce.reduction.Shows`.

        The other release is measured only where its result is still needed, while the bad one goes on with the next sets:
        each release has a worker of its own.
        """
        verdicts = [Verdict.UNKNOWN] * len(parameter_sets)
        waiting: dict[int, Result] = {}  #: index -> result of the bad release, if that does not settle it
        for first in range(0, len(parameter_sets) + _AT_ONCE, _AT_ONCE):
            part = range(first, min(first + _AT_ONCE, len(parameter_sets)))
            open_sets = [(self._good, parameter_sets[at]) for at in waiting] if self._good is not None else []
            results = self._results([*((self._bad, parameter_sets[at]) for at in part), *open_sets])
            others = results[len(part) :] if self._good is not None else [None] * len(waiting)
            for (at, bad), good in zip(waiting.items(), others, strict=True):
                verdicts[at] = self._alone(bad) if good is None else self._judge(bad, good)
            waiting = {}
            for at, bad in zip(part, results[: len(part)], strict=True):
                settled = self._settled(bad)
                if settled is None:
                    waiting[at] = bad
                else:
                    verdicts[at] = settled
        return verdicts

    def against(self, good: Stack) -> ReleasePair:
        """Return the same question about another sound release."""
        return ReleasePair(self.question, self._bad, good, self._session, self._scenario, self._detail_of)

    def begin(self, parameters: Mapping[str, object]) -> Verdict:
        """Return Bad if the finding's own cell shows it. From then on, an exact figure is compared with this cell's, not
        with the thresholds: they are made for jobs, and a tiny job has less of everything."""
        metric = BY_NAME[self.question.metric]
        if self._good is None or not metric.exact or metric.direction is not Direction.LOWER_IS_BETTER:
            return self.shows([parameters])[0]
        bad, good = (self._observed(one) for one in self._results([(self._bad, parameters), (self._good, parameters)]))
        if bad.value is None or good.value is None:
            return Verdict.UNKNOWN
        excess = bad.number - good.number
        share = metric.share(self._session.settings.thresholds) if metric.share is not None else 0.0
        if excess <= 0 or excess < share * good.number:
            return Verdict.GOOD
        self._own_excess = excess
        return Verdict.BAD

    def answers(self, parameters: Mapping[str, object]) -> str:
        """Return the answer of each measured release on one cell, in words."""
        stacks = filter(None, (self._bad, self._good))
        cells = [self._cell(stack, parameters) for stack in stacks]
        seen = [self._seen[cell.id] for cell in cells if cell.id in self._seen]
        return "; ".join(f"{result.cell.stack.label}: {self._observed(result).text}" for result in seen)

    def _cell(self, stack: Stack, parameters: Mapping[str, object]) -> Cell:
        """Return the cell with the parts that the question needs, and no more."""
        return cell_of(self._scenario, stack, {**parameters, **self._left_out})

    def _results(self, wanted: Sequence[tuple[Stack, Mapping[str, object]]]) -> list[Result]:
        """Return a result for each wanted cell, in order."""
        cells = [self._cell(stack, parameters) for stack, parameters in wanted]
        unique = list({cell.id: cell for cell in cells}.values())
        found = newest_by_cell(self._session.measure(unique, baseline=self._bad, rounds=0)) if unique else {}
        self._seen |= found
        return [found[cell.id] for cell in cells]

    def _observed(self, result: Result) -> Observation:
        return questions.observe(self.question, result, self._detail_of)

    def _settled(self, bad: Result) -> Verdict | None:
        """Return the verdict that needs no other release; None if another has to be measured."""
        observed = self._observed(bad)
        metric = BY_NAME[self.question.metric]
        if observed.value is None:
            return Verdict.UNKNOWN
        if metric is OUTCOME and not (self.question.key and self.question.key in observed.text):
            return Verdict.GOOD if observed.value == "passed" else Verdict.UNKNOWN
        return Verdict.GOOD if metric.direction is Direction.AT_MOST_ONE and observed.number <= _SOUND else None

    def _alone(self, bad: Result) -> Verdict:
        """Return the verdict on a release that is compared with none, if `_settled` leaves it open."""
        metric = BY_NAME[self.question.metric]
        if metric is OUTCOME:
            return Verdict.BAD
        if metric.direction is Direction.AT_MOST_ONE:
            return Verdict.GOOD if self._observed(bad).number <= 1 else Verdict.BAD
        limit = metric.limit(0.0, self._session.settings.thresholds)
        return Verdict.BAD if self._observed(bad).number > limit else Verdict.GOOD

    def _judge(self, bad: Result, good: Result) -> Verdict:
        """Return the verdict on a pair of results, if the bad release alone does not settle it."""
        observed, other = self._observed(bad), self._observed(good)
        metric = BY_NAME[self.question.metric]
        if metric.direction is Direction.AT_MOST_ONE and other.number > 1:
            return Verdict.UNKNOWN  # it is not what tells the two apart
        if metric.direction is Direction.AT_MOST_ONE and observed.number <= 1:
            return Verdict.GOOD if other.number >= _NEARLY * observed.number else Verdict.UNKNOWN
        if metric is OUTCOME and other.value != "passed":
            return Verdict.UNKNOWN
        if isinstance(other.value, float) and math.isnan(other.number):
            return Verdict.UNKNOWN
        if self._own_excess is not None and other.value is not None:
            return _excess_verdict(observed.number - other.number, self._own_excess)
        return questions.judge_observation(self.question, observed, other, None, self._session.settings.thresholds)


def shown_by_all(pairs: Sequence[ReleasePair]) -> Callable[[Sequence[Mapping[str, Any]]], list[Verdict]]:
    """Return the test of a finding in each of several pairs; a later pair is measured only on sets that the earlier ones
    show."""

    def shows(parameter_sets: Sequence[Mapping[str, object]]) -> list[Verdict]:
        verdicts = [Verdict.BAD] * len(parameter_sets)
        for pair in pairs:
            shown = [at for at, verdict in enumerate(verdicts) if verdict is Verdict.BAD]
            for at, verdict in zip(shown, pair.shows([parameter_sets[at] for at in shown]), strict=True):
                verdicts[at] = verdict
        return verdicts

    return shows


def _excess_verdict(excess: float, own: float) -> Verdict:
    if excess >= _SHOWN * own:
        return Verdict.BAD
    return Verdict.GOOD if excess <= _HIDDEN * own else Verdict.UNKNOWN


def base_parameters(scenario: Scenario) -> dict[str, object]:
    """Return the parameters of the scenario's base variant, without the model's shape."""
    return {**scenario.parameters, **scenario.devices[DEVICE]}


def cell_of(scenario: Scenario, stack: Stack, parameters: Mapping[str, object]) -> Cell:
    """Return the cell of the simplest scenario with these parameters, named by the values that are not the simplest."""
    base = base_parameters(scenario)
    changes = {name: value for name, value in parameters.items() if name != SHAPE and value != base.get(name)}
    name = variant_id(changes)
    if len(name) > _LONGEST:
        name = f"with-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return Cell(
        stack=stack,
        scenario=SIMPLEST_OF[scenario.framework],
        scenario_version=scenario.version,
        variant=name,
        device=DEVICE,
        framework=scenario.framework,
        parameters=scenario.resolve("base", DEVICE, changes),
    )


def at_small_size(cell: Cell, scenario: Scenario) -> dict[str, object]:
    """Return the parameters of a cell at a size that trains on a CPU: its own if it ran there, else its factors alone."""
    base = base_parameters(scenario)
    if cell.device == DEVICE:
        own = {name: value for name, value in cell.parameters.items() if name != SHAPE}
    else:
        kept = {name for name in FACTORS if name not in ("model", "world_size")}
        own = {name: value for name, value in cell.parameters.items() if name in kept}
        own["world_size"] = min(cell.parameters.get("world_size", 1), 2)
    # An "auto" size is that of a tiny model, and what older scenarios do not name is as transformers has it.
    small = {name: value for name, value in SIZES.items() if own.get(name) in (None, "auto")}
    found = {**base, "model_outputs": "all", "integration": "transformers", **own, **small}
    return {name: value for name, value in found.items() if name in base or name not in FACTORS}


def leaps(cell: Cell) -> list[set[str]]:
    """Return guesses at the factors that a finding needs: the variant's changes and the way of sharding, then one factor
    more each."""
    named = variant_values(cell.variant).keys() & FACTORS.keys()
    found = [named | {"zero_stage", "zero_init"}]
    for name in ("model_outputs", "world_size", "dtype"):
        found.append(found[-1] | {name})
    return found


def question_of(
    results: Iterable[Result], bad: Cell, baseline: Stack, settings: Settings, detail_of: DetailOf
) -> Question:
    """Return the gravest finding on a cell as a question. Raise NothingMeasured if it has no finding."""
    comparison = compare.compare(results, baseline.id, settings.thresholds, detail_of)
    picked = questions.question_of_finding(comparison, bad.stack.id)
    if picked is None or picked[1].kind == "improvement":
        hint = "name what is: --metric configuration:KEY, or --against another release"
        raise NothingMeasured("nothing is worse than in the other release", where=bad.id, hint=hint)
    return picked[0]


def lacks_error(question: Question) -> bool:
    """Return True if the question is about an outcome but does not name the error."""
    return question.metric == OUTCOME.name and not question.key


def with_error(question: Question, result: Result) -> Question:
    """Return the question; if it lacks an error, with the one that ended the result."""
    if not lacks_error(question) or isinstance(result.outcome, Passed):
        return question
    return Question(question.metric, question.phase, telling_part(result.outcome, _SIGNATURE))
