"""The symptom of a problem in words: what comes first in the newest affected release, and what is with it."""

from __future__ import annotations

import msgspec

from dsregress.compare import Problem
from dsregress.compare.causal_order import causal_position, follows_from
from dsregress.compare.exact_differences import change_text
from dsregress.compare.metrics import BY_NAME, HOST_CALLS, PROCESSOR_TIME, SMALLEST_CARD, STEP_TIME
from dsregress.messages import COLON, SEMICOLON, Message, Text, joined, message
from dsregress.model import Finding
from dsregress.report.context import ReportContext
from dsregress.wording.names import outcome_words
from dsregress.wording.quantities import quantity


class Symptom(msgspec.Struct, frozen=True):
    """A symptom in words."""

    text: Text
    below_title: Text  #: the same without what a title about training or saving says too


#: Most findings that are named with the first one.
_MOST_FOLLOWING = 3


def symptom_of(context: ReportContext, problem: Problem) -> Symptom:
    """Return the symptom of a problem."""
    found = first_finding(problem)
    text = _symptom_text(context, problem, found)
    below_title = text
    if found.claim and not BY_NAME[found.metric].symptom:
        below_title = joined(COLON, (found.model, found.sentence))
    if following := _following(problem, found):
        beside = joined(SEMICOLON, following[:_MOST_FOLLOWING])
        return Symptom(
            *(message("{first}; with it, {following}", first=t, following=beside) for t in (text, below_title))
        )
    return Symptom(text, below_title)


def first_finding(problem: Problem) -> Finding:
    """Return the finding that the others may follow from, in the newest release that has the problem: earlier ones may have
    more, by another cause. The worst one, unless several have places in the chain of causes."""
    newest = [one for one in problem.findings if one.stack == problem.until] or [problem.worst]
    return min(newest, key=causal_position)


def _following(problem: Problem, first: Finding) -> list[Text]:
    """Return the findings of the same run that may follow from the first one, in the order of causes: the worst of each
    place and family."""
    same_run = (one for one in (*problem.findings, *problem.related) if one.cell == first.cell and one.relevant)
    worst: dict[tuple[int, str], Finding] = {}
    for one in same_run:
        if follows_from(one, first):
            worst.setdefault((causal_position(one), BY_NAME[one.metric].family), one)
    following = sorted(worst.values(), key=causal_position)
    return [joined(COLON, (one.model, BY_NAME[one.metric].wrong, one.sentence)) for one in following]


def _symptom_text(context: ReportContext, problem: Problem, found: Finding) -> Text:
    metric = BY_NAME[found.metric]
    if metric.family == STEP_TIME.family:
        return _slower(problem)
    if metric is SMALLEST_CARD:
        now, before = (quantity(size, metric.unit) for size in (found.value, found.baseline_value))
        return message("needs a card of {now}, was {before} (the allocator's model)", now=now, before=before)
    if found.outcome is not None:
        return outcome_words(found.outcome)
    if metric.exact and found.kind == "regression" and problem.before not in ("", context.comparison.baseline):
        return _change_from(context, found, problem.before)
    text = joined(COLON, (found.model, metric.symptom or found.claim, found.sentence))
    if metric.family == HOST_CALLS.family and (time := context.times_of(found.workload).get(found.stack)):
        return message("{change} (a step takes {ratio})", change=text, ratio=_clocked(time.ratio, time.metric))
    return text


def _change_from(context: ReportContext, found: Finding, before: str) -> Text:
    """Return the change from the last release without the problem, or the finding, which compares with the baseline, if that
    release has no value."""
    metric = BY_NAME[found.metric]
    cell = context.comparison.cells.of(before, found.workload)
    value = cell.worst().get(metric.flat_name(found.phase)) if cell is not None else None
    if value is None:
        return joined(COLON, (found.model, found.claim, found.sentence))
    than = context.name_beside(before, found.stack)
    return change_text(metric, found.phase, found.value, value, than=than)


def _slower(problem: Problem) -> Message:
    newest = [one for one in problem.findings if one.stack == problem.until] or problem.findings
    worst = max(newest, key=lambda one: one.ratio or 0.0)
    ratios = sorted(one.ratio for one in newest if one.ratio is not None and one.metric == worst.metric)
    size: Text = f"{ratios[0]:.2f}x"
    if ratios[0] != ratios[-1]:
        size = message("{least} to {most}", least=size, most=f"{ratios[-1]:.2f}x")
    if worst.metric == PROCESSOR_TIME.name:
        size = message("{ratios} the processor time", ratios=size)
    if len(problem.affected) > 1:
        size = message("{ratios}, most on {scenario}", ratios=size, scenario=worst.scenario)
    if worst.device == "cpu":
        return message("a step takes {ratios} (CPU ranks: host overhead)", ratios=size)
    return message("a step takes {ratios}", ratios=size)


def _clocked(ratio: float, metric: str) -> Text:
    """Return a ratio with its clock, unless that is the wall's."""
    text = f"{ratio:.2f}x"
    return message("{ratios} the processor time", ratios=text) if metric == PROCESSOR_TIME.name else text
