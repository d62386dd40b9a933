"""Tables of measured values, judged or not: one for each workload, and one for a sweep over many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dsregress.advice import gpus
from dsregress.advice.capacity import compared_verdict
from dsregress.advice.gpus import Card, step_time
from dsregress.compare import Group
from dsregress.compare.metrics import DEVICE_PEAK, DEVICE_RETAINED, FLOPS, HOST_CALLS
from dsregress.compare.result_summary import ResultSummary
from dsregress.compare.step_times import clocked_ratio_text
from dsregress.compare.worst_readings import collectives_by_kind, worst_rank
from dsregress.model import Failed, Passed
from dsregress.probe.border.wire import PHASES
from dsregress.report import compatibility
from dsregress.report.context import ReportContext
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import plural, quantity, short_quantity, shortened
from vgpu.figures import PhaseReading

MOST_TABLES = 6

#: The columns of a workload's table: metric, phase, and the phase's abbreviation in the heading.
_COLUMNS = (
    (DEVICE_PEAK, "backward", "bwd"),
    (DEVICE_RETAINED, "backward", "bwd"),
    (DEVICE_PEAK, "step", "step"),
    (HOST_CALLS, "backward", "bwd"),
)

#: The heading of a simulated cell's least step time (`dsregress.advice.gpus.step_time`).
_MODELLED = "step, model"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table with a row for each stack. Cells hold ``-`` if nothing was measured."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def workload_tables(context: ReportContext, failing: Sequence[Group]) -> list[Table]:
    """Return a table for each workload, up to `MOST_TABLES`, those with findings in ``failing`` first."""
    with_findings = list(dict.fromkeys(group.headline.workload for group in failing))[:MOST_TABLES]
    wanted = list(dict.fromkeys([*with_findings, *context.comparison.cells.workloads]))[:MOST_TABLES]
    return [_workload_table(context, workload) for workload in wanted]


def compatibility_table(context: ReportContext) -> tuple[list[Table], list[str]]:
    """Return a table with the number of workloads of each release that have each word, and lines that say which workloads do
    not pass in which releases. Both are empty unless there are more than `MOST_TABLES` workloads."""
    if len(context.comparison.cells.workloads) <= MOST_TABLES:
        return [], []
    matrix = compatibility.matrix(context)
    columns, rows = compatibility.counts(matrix, context.comparison.names)
    title = f"Compatibility: outcomes of {plural(len(matrix.workloads), 'workload')}"
    table = Table(title=title, columns=columns, rows=tuple(rows))
    return [table], compatibility.patterns(matrix, context)


def table_notes(tables: Iterable[Table]) -> list[str]:
    """Return the notes that a reader of a modelled column must know; none without such a column."""
    if not any(_MODELLED in table.columns for table in tables):
        return []
    return [f"{_MODELLED}: not measured; by peak FLOP/s and links no release can be faster on that card (docs/sim.md)"]


def _workload_table(context: ReportContext, workload: str) -> Table:
    times, cells = context.times_of(workload), context.comparison.cells.of_workload(workload)
    first = next(iter(cells.values())).result.cell
    card = gpus.named_card(first.parameters) if first.device == "sim" else None
    columns = [column for column in _COLUMNS if first.device != "sim" or column[0] is not HOST_CALLS]
    titles = [f"{metric.heading} {phase}" for metric, _, phase in columns]
    headings = ("stack", *titles, *((_MODELLED, f"on {card.name}") if card else ("step time ratio",)))
    rows = []
    for stack in context.comparison.stacks:
        if stack.id not in cells:
            continue
        cell = cells[stack.id]
        name = context.name_of(stack.id) + (" (baseline)" if stack.id == context.comparison.baseline else "")
        if not cell.recorded:
            rows.append((name, *("-" for _ in headings[2:]), _ended(cell)))
            continue
        exact = cell.exact
        readings = [(worst_rank(exact, metric, phase), metric.unit) for metric, phase, _ in columns]
        values = [short_quantity(reading.value, unit) if reading else "-" for reading, unit in readings]
        time = times.get(stack.id)
        last = (
            clocked_ratio_text(time)
            if time
            else "1"
            if stack.id == context.comparison.baseline and cell.round_s
            else "-"
        )
        if not isinstance(cell.result.outcome, Passed):
            last = _ended(cell)
        elif card is not None:
            values.append(_least_step(cell, card))
            last = fit_text(cell, card)
        rows.append((name, *values, *("-" for _ in headings[len(values) + 2 :]), last))
    return Table(title=workload, columns=headings, rows=tuple(rows))


def _least_step(cell: ResultSummary, card: Card) -> str:
    """Return, in words, the modelled least time of a step of the simulated rank: no release can be faster on this card."""
    exact = cell.exact
    parameters = cell.result.cell.parameters
    phases = {}
    for phase in PHASES:
        flops = worst_rank(exact, FLOPS, phase)
        if flops is not None:
            phases[phase] = PhaseReading(
                flops=int(flops.value), collectives=collectives_by_kind(exact, phase, flops.rank)
            )
    bounds = step_time.step_bound(
        phases,
        card,
        str(parameters.get("dtype", "bf16")),
        int(parameters.get("world_size", 1)),
        state_bytes=cell.state_bytes,
    )
    return f">= {quantity(sum(bound.least_s for bound in bounds.values()), 's')}" if bounds else "-"


def fit_text(cell: ResultSummary, card: Card) -> str:
    """Return whether the simulated rank fits a card, in words."""
    return compared_verdict(cell, card).words


def _ended(cell: ResultSummary) -> str:
    """Return a cell's outcome in short: the findings have its signature."""
    outcome = cell.result.outcome
    return f"failed in {outcome.stage}" if isinstance(outcome, Failed) else shortened(outcome_text(outcome), 60)
