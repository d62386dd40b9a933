"""Facts for the pages of one workload, computed once: series over the releases, their changes, how each cell ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dsregress.advice import gpus
from dsregress.advice.gpus import Card
from dsregress.compare import Group, Thresholds
from dsregress.compare.metrics import DEVICE_EXCESS, DEVICE_PEAK, PHASE_METRICS, STEP_TIME, Metric
from dsregress.compare.result_summary import ResultSummary
from dsregress.compare.worst_readings import Exact
from dsregress.model import Failed, MachineFault, Passed, Skipped
from dsregress.probe.border.wire import PHASES, REGULAR_PHASES
from dsregress.report.context import ReportContext
from dsregress.report.html.change_points import change_points
from dsregress.report.rows import is_worse
from dsregress.report.tables import fit_text
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import quantity, share

#: Over the baseline's, of the same session: seconds of different sessions are not comparable.
_STEP_TIME = f"{STEP_TIME.title}, over the baseline's"


class ChangePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a series: from one measured release to the next."""

    workload: str
    series: str  #: the series' title
    family: str
    stack: str  #: the first release after it
    before: str  #: the last release before it
    old: float
    new: float
    unit: str
    size: float  #: relative to the old value, or 1 where that is 0

    @property
    def text(self) -> str:
        """Return the change in words: ``34.9 GiB -> 162 GiB (4.6x)``."""
        return f"{reading(self.old, self.unit)} -> {reading(self.new, self.unit)} ({share(self.new, self.old)})"


class MetricSeries(msgspec.Struct, frozen=True, kw_only=True):
    """One metric over the stacks of the comparison, in version order."""

    title: str
    unit: str
    exact: bool
    values: tuple[float | None, ...]
    changes: tuple[int, ...]  #: places of the first value after each

    def text(self, at: int) -> str:
        """Return the value at an index in words; ``-`` if it was not measured."""
        value = self.values[at]
        return "-" if value is None else reading(value, self.unit)


class MatrixCell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of the matrix: its standing, as a sign and a word."""

    kind: str  #: ok, wrong, failed, regression, changed, improvement, none, unjudged, baseline
    text: str  #: short: the worst finding's size, or the reason
    title: str  #: a sentence
    page: str = ""  #: of its evidence


class StackFigures(msgspec.Struct, frozen=True):
    """Every metric of one workload as JSON, for the page that compares two stacks. Most stacks share their exact values."""

    exact: tuple[bytes, ...]
    cells: dict[str, tuple[int, bytes]]  #: stack -> its place in ``exact``, and its outcome with what is noisy

    def of(self, stack: str) -> bytes:
        """Return ``{"exact": {METRIC: VALUE, ...}, "noisy": {METRIC: VALUE, ...}, "outcome": TEXT}`` of a stack."""
        place, own = self.cells[stack]
        return b'{"exact":' + self.exact[place] + b"," + own[1:]


class WorkloadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one workload that the pages about all workloads need, and the files that were written for it."""

    workload: str
    cells: dict[str, MatrixCell]  #: by stack
    changes: tuple[ChangePoint, ...]  #: the largest
    figures: StackFigures
    pages: dict[str, str]  #: path -> digest
    written: int


class WorkloadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All about one workload."""

    workload: str
    device: str
    parameters: dict[str, Any]
    outcomes: dict[str, str]  #: stack -> how it ended
    moved: tuple[MetricSeries, ...]  #: the series with a change, the largest first
    still: tuple[MetricSeries, ...]  #: the others
    memory: tuple[tuple[str, tuple[float | None, ...]], ...]  #: phase -> peak of device memory over the stacks
    cards: tuple[tuple[str, tuple[str, ...]], ...]  #: card -> verdict for each stack; empty unless it was simulated
    changes: tuple[ChangePoint, ...]
    figures: StackFigures


def reading(value: float, unit: str) -> str:
    """Return a value as `quantity` does, and a ratio as ``1.21``."""
    return f"{value:.2f}" if unit == "ratio" else quantity(value, unit)


def workload_facts(context: ReportContext, workload: str, ratios: Mapping[str, float]) -> WorkloadFacts:
    """Read every cell of one workload and return its facts. ``ratios``: stack -> its step time over the baseline's, if it
    was measured."""
    cells = context.comparison.cells.of_workload(workload)
    first = next(iter(cells.values())).result.cell
    flat: dict[str, dict[str, float]] = {}
    by_stack: dict[str, tuple[int, bytes]] = {}
    worst: dict[Exact, tuple[int, dict[str, float]]] = {}  #: exact values -> their place among those, and read
    for stack, cell in cells.items():
        known = worst.get(cell.exact)
        if known is None:
            known = worst[cell.exact] = len(worst), cell.worst()
        (place, exact), noisy = known, cell.noisy()
        flat[stack] = {**exact, **noisy}
        own = {"noisy": _judged(noisy), "outcome": outcome_text(cell.result.outcome)}
        by_stack[stack] = place, msgspec.json.encode(own)
    order = list(context.comparison.names)  # ids, in version order; made from a stack they take a while
    series, changes = _series(workload, order, flat, ratios, context.thresholds)
    moved = sorted((s for s in series if s.changes), key=lambda s: (not s.exact, -_largest(s)))
    return WorkloadFacts(
        workload=workload,
        device=first.device,
        parameters=first.parameters,
        outcomes={stack: outcome_text(cell.result.outcome) for stack, cell in cells.items()},
        moved=tuple(moved),
        still=tuple(s for s in series if not s.changes),
        memory=tuple((phase, peaks) for phase in PHASES if _is_shown(phase, peaks := _peaks(order, flat, phase))),
        cards=_cards(order, cells) if first.device == "sim" else (),
        changes=tuple(changes),
        figures=StackFigures(tuple(msgspec.json.encode(_judged(exact)) for _, exact in worst.values()), by_stack),
    )


def _peaks(order: Sequence[str], flat: Mapping[str, Mapping[str, float]], phase: str) -> tuple[float | None, ...]:
    return tuple(flat.get(stack, {}).get(DEVICE_PEAK.flat_name(phase)) for stack in order)


def _is_shown(phase: str, values: Sequence[float | None]) -> bool:
    """Return True if a phase is shown: a regular one, or an occasion that was measured, which few programs have."""
    return phase in REGULAR_PHASES or any(value is not None for value in values)


def matrix_cell(
    cell: ResultSummary | None, groups: Sequence[Group], page: str, *, baseline: bool, judged: bool
) -> MatrixCell:
    """Return one cell of the matrix by its worst finding, or by the reason for having none."""
    if cell is None:
        return MatrixCell(kind="none", text="", title="not measured")
    ended = outcome_text(cell.result.outcome)
    worst = groups[0].headline if groups else None
    if worst is not None and (is_worse(worst) or isinstance(cell.result.outcome, Passed)):
        if is_worse(worst):
            return MatrixCell(kind=worst.kind, text=_finding_size(worst), title=worst.message, page=page)
        if worst.kind == "improvement" and worst.relevant:
            return MatrixCell(kind="improvement", text=_finding_size(worst), title=worst.message, page=page)
    match cell.result.outcome:
        case Skipped() | MachineFault() | Failed(stage="harness"):
            return MatrixCell(kind="unjudged", text="", title=ended, page=page)
        case Passed():
            if baseline:
                return MatrixCell(
                    kind="baseline", text="", title="the baseline: what the others are compared with", page=page
                )
            if not judged:
                return MatrixCell(
                    kind="unjudged", text="", title="ran, but could not be compared with the baseline", page=page
                )
            return MatrixCell(kind="ok", text="", title="nothing is worse than the baseline", page=page)
    return MatrixCell(kind="failed", text=ended.partition(":")[0], title=ended, page=page)


def _finding_size(found: Any) -> str:
    """Return the size of a finding, short enough for a cell of the matrix; empty if it has none."""
    if not isinstance(found.value, (int, float)) or isinstance(found.value, bool):
        return ""
    if found.unit == "tolerances":
        return f"{found.value:.3g}x off"
    if not isinstance(found.baseline_value, (int, float)) or found.unit in ("", "s"):
        return f"{found.ratio:.2f}x" if found.ratio else ""
    difference = found.value - found.baseline_value
    if found.unit == "bytes":
        return f"{'+' if difference > 0 else ''}{quantity(difference, 'bytes')}"
    return share(found.value, found.baseline_value) if found.baseline_value else f"+{quantity(difference, '')}"


def _series(
    workload: str,
    order: Sequence[str],
    flat: Mapping[str, Mapping[str, float]],
    ratios: Mapping[str, float],
    thresholds: Thresholds,
) -> tuple[list[MetricSeries], list[ChangePoint]]:
    """Return one series per metric that some release measured, over the releases in ``order``, and the series' changes.

    ``flat`` holds the worst rank's exact values by stack, ``ratios`` the step times over the baseline's.
    """
    lines: list[tuple[Metric, str, str, tuple[float | None, ...]]] = []
    nothing: Mapping[str, float] = {}
    columns = [flat.get(stack, nothing) for stack in order]
    for phase in PHASES:
        for metric in PHASE_METRICS:
            key = metric.flat_name(phase)
            values = tuple([column.get(key) for column in columns])
            if any(values):
                lines.append((metric, f"{phase}: {metric.title}", metric.unit, values))
    lines.append((STEP_TIME, _STEP_TIME, "ratio", tuple(ratios.get(stack) for stack in order)))
    found: list[MetricSeries] = []
    changes: list[ChangePoint] = []
    for metric, title, unit, values in lines:
        known = [value for value in values if value is not None and math.isfinite(value)]
        if not known or not any(known):
            continue
        limit = _least_step(metric, known, thresholds)
        places = change_points(values, limit, exact=metric.exact)
        found.append(MetricSeries(title=title, unit=unit, exact=metric.exact, values=values, changes=places))
        for place in places:
            before = max(at for at in range(place) if values[at] is not None)
            old, new = values[before], values[place]
            assert old is not None
            assert new is not None
            changes.append(
                ChangePoint(
                    workload=workload,
                    series=title,
                    family=metric.family,
                    stack=order[place],
                    before=order[before],
                    old=old,
                    new=new,
                    unit=unit,
                    size=abs(new / old - 1) if old else 1.0,
                )
            )
    return found, changes


def _least_step(metric: Metric, known: Sequence[float], thresholds: Thresholds) -> float:
    """Return the smallest step that matters: the limit of a difference from the smallest value."""
    if not metric.exact:  # a ratio
        return thresholds.time_share
    return max(metric.limit(min(known), thresholds), 1e-12)


def _largest(series: MetricSeries) -> float:
    known = [value for value in series.values if value is not None]
    return (max(known) - min(known)) / (abs(min(known)) or max(known))


def _judged(values: dict[str, float]) -> dict[str, float | str]:
    """Return the measured values by which two stacks can be compared. Infinity becomes text, because JSON has none."""
    return {
        name: value if math.isfinite(value) else str(value)
        for name, value in values.items()
        if value and not name.endswith(DEVICE_EXCESS.name)
    }


def _cards(order: Sequence[str], cells: dict[str, ResultSummary]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(
        (name, tuple(_on(cells.get(stack), card) for stack in order)) for name, card in gpus.catalogue().items()
    )


def _on(cell: ResultSummary | None, card: Card) -> str:
    if cell is None or not cell.recorded or not isinstance(cell.result.outcome, Passed):
        return "-"
    return fit_text(cell, card)
