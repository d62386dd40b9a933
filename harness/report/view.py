"""The report, before it has a format: every number computed and every sentence made once."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from harness.advice import fit, gpus, recommend
from harness.advice.gpus import step_time
from harness.compare import Comparison, Group, StepTime
from harness.compare.metrics import DEVICE_PEAK, DEVICE_RETAINED, FLOPS, HOST_CALLS
from harness.compare.readings import collectives_by_kind, worst_rank
from harness.compare.spans import ranges
from harness.compare.summary import Measured
from harness.compare.timing import ratio_text
from harness.model import AXES, Failed, Finding, Passed, Stack
from harness.probe.border.wire import PHASES, PhaseReading
from harness.report import compatibility
from harness.wording.names import outcome_text, varied_axes, version
from harness.wording.quantities import listing, plural, quantity, short_quantity, shortened

#: What a person reads is bounded; all of it is in the JSON report.
MOST_ROWS, MOST_TABLES, MOST_LINES = 30, 6, 12

#: The columns of a workload's table: metric, phase, and the phase as the heading has room for it.
_COLUMNS = (
    (DEVICE_PEAK, "backward", "bwd"),
    (DEVICE_RETAINED, "backward", "bwd"),
    (DEVICE_PEAK, "step", "step"),
    (HOST_CALLS, "backward", "bwd"),
)


#: The heading of a simulated cell's least step time (`harness.advice.gpus.step_time`).
_MODELLED = "step, model"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One finding (or the same failure on several workloads), for a person."""

    stack: str
    workload: str
    kind: str
    message: str
    evidence: tuple[str, ...]
    related: tuple[str, ...]  #: the other findings that come with it
    reproduce: str  #: the command that measures this cell and the baseline's again


class Section(msgspec.Struct, frozen=True):
    """Findings under one heading."""

    title: str
    rows: tuple[Row, ...]
    more: int  #: rows beyond the limit


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """One workload over the stacks. Cells hold ``-`` where nothing was measured."""

    workload: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One row with what it was made of, for formats that have a place for each finding."""

    section: str  #: the title of its section
    row: Row
    groups: tuple[Group, ...]  #: the worst first


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report of any format says."""

    verdict: str  #: one line: what it comes to
    measured: str  #: one line: what it stands on
    spans: tuple[str, ...]
    sections: tuple[Section, ...]  #: findings, worst section first; empty ones are left out
    below: str  #: about differences that are real and small; empty where there are none
    not_compared: tuple[str, ...]
    control: tuple[str, ...]
    tables: tuple[Table, ...]
    compatibility: tuple[Table, ...]  #: of a sweep: one table, how many workloads of each release fare how; else empty
    patterns: tuple[str, ...]  #: of a sweep: which workloads are not sound in which releases
    notes: tuple[str, ...]
    worst: str  #: the command that measures the worst finding again; empty where nothing is worse


def view(comparison: Comparison) -> View:
    """The view of a comparison."""
    titled = _titled(comparison)
    worse, alike = titled["Worse"], titled["Fails for the baseline too"]
    tables = _tables(comparison, [*worse, *alike])
    return View(
        verdict=_verdict(comparison, worse),
        measured=_measured(comparison),
        spans=tuple(_spans(comparison)),
        sections=tuple(Section(title, *_rows(comparison, groups)) for title, groups in titled.items() if groups),
        below=_below(comparison),
        not_compared=tuple(_not_compared(comparison)),
        control=tuple(_control(comparison)),
        tables=tuple(tables),
        **_compatibility(comparison),
        notes=(*comparison.notes, *_modelled(tables)),
        worst=_row(comparison, worse[0]).reproduce if worse else "",
    )


def entries(comparison: Comparison) -> list[Entry]:
    """Every row of every section, worst first: what a person reads of it is not bounded here."""
    return [
        Entry(section=title, row=_merged(comparison, members), groups=tuple(members))
        for title, groups in _titled(comparison).items()
        for members in _together(groups)
    ]


def _titled(comparison: Comparison) -> dict[str, list[Group]]:
    """The sections of a report, worst first, with their groups of findings."""
    return {
        "Worse": [g for g in comparison.groups if is_worse(g.headline)],
        "Fails for the baseline too": [
            g for g in comparison.groups if g.headline.kind == "failed" and not g.headline.relevant
        ],
        "Improved": [g for g in comparison.groups if g.headline.kind == "improvement" and g.headline.relevant],
        "Changed defaults and new warnings": [g for g in comparison.groups if g.headline.kind == "changed"],
    }


def reproduce(stack: Stack, baseline: Stack | None, finding: Finding) -> str:
    """The exact command that measures one cell, and the baseline's beside it, again. A baseline of another named stack
    stays away: one command takes the pins of one."""
    if baseline is not None and baseline.named != stack.named:
        baseline = None
    stacks = [baseline, stack] if baseline is not None and baseline.id != stack.id else [stack]
    axes = [axis for axis in varied_axes(stacks) if axis != "python"]
    if not axes:
        axes = [axis for axis in ("deepspeed", *AXES, *stack.versions) if axis in stack.versions][:1]
    words = ["nox", "-s", "regress", "--"]
    if stack.named:
        words += ["--stack", stack.named]
    for axis in axes:
        spec = ",".join(dict.fromkeys(version(one, axis) for one in stacks))
        words += [f"--{axis}", spec] if axis in AXES else ["--with", f"{axis}={spec}"]
    if baseline is not None and len(axes) == 1:
        words += ["--baseline", version(baseline, axes[0])]
    words += ["--scenario", finding.scenario, "--variant", finding.variant, "--device", finding.device, "--fresh"]
    return shlex.join(words)


def is_worse(found: Finding) -> bool:
    """Whether a finding is one that a person should act on."""
    return found.kind in ("regression", "wrong", "failed") and found.relevant


def _verdict(comparison: Comparison, worse: Sequence[Group]) -> str:
    judged = [group.headline for group in worse]
    if judged:
        stacks = [comparison.names[s] for s in dict.fromkeys(found.stack for found in _in_order(comparison, judged))]
        return f"Worse: {plural(len(judged), 'finding')} on {plural(len(stacks), 'stack')} ({listing(stacks, 10)})"
    if comparison.passed == 0:
        return "Nothing was measured"
    others = any(stack.id != comparison.baseline for stack in comparison.stacks)
    if others and comparison.compared == 0:
        return "Nothing could be compared with the baseline"
    if not others:
        return "One stack measured: nothing to compare it with, and no oracle is violated"
    return "Nothing is worse than the baseline"


def _in_order(comparison: Comparison, found: Iterable[Finding]) -> list[Finding]:
    order = {stack.id: at for at, stack in enumerate(comparison.stacks)}
    return sorted(found, key=lambda one: order.get(one.stack, -1))


def _measured(comparison: Comparison) -> str:
    names = [comparison.names[stack.id] for stack in comparison.stacks]
    axes = varied_axes(comparison.stacks)
    what = f"{axes[0]} " if len(axes) == 1 else ""
    baseline = comparison.names.get(comparison.baseline, comparison.baseline)
    workloads = len(comparison.cells.workloads)
    return (
        f"Measured {what}{listing(names, 12)} on {plural(workloads, 'workload')}: "
        f"{comparison.passed:,} of {plural(comparison.ran, 'cell')} passed, {comparison.compared:,} compared with "
        f"the baseline {baseline}"
    )


def _spans(comparison: Comparison) -> list[str]:
    lines = [f"{listing(list(span.workloads), 3)}: {span.sentence}" for span in comparison.spans[:MOST_LINES]]
    if len(comparison.spans) > MOST_LINES:
        lines.append(f"and {len(comparison.spans) - MOST_LINES} more patterns over the releases")
    return lines


def _row(comparison: Comparison, group: Group) -> Row:
    found = group.headline
    stacks = {stack.id: stack for stack in comparison.stacks}
    return Row(
        stack=comparison.names[found.stack],
        workload=found.workload,
        kind=found.kind,
        message=found.message,
        evidence=found.evidence,
        related=tuple(one.message for one in group.related),
        reproduce=reproduce(stacks[found.stack], stacks.get(comparison.baseline), found),
    )


def _together(groups: Sequence[Group]) -> list[list[Group]]:
    """What becomes one row: a failure that is the same on several workloads of a stack, a default that is the
    same on several stacks, and the same metric of one workload on several stacks, the worst first."""
    rows: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        found = group.headline
        key: tuple[str, ...] = (found.kind, found.workload, found.metric, found.phase)
        if found.kind == "failed":
            key = (found.stack, found.message)
        elif found.kind == "changed":
            key = (found.kind, found.message)
        rows.setdefault(key, []).append(group)
    return list(rows.values())


def _rows(comparison: Comparison, groups: Sequence[Group]) -> tuple[tuple[Row, ...], int]:
    """The first rows, and how many there are beyond."""
    together = _together(groups)
    return tuple(_merged(comparison, members) for members in together[:MOST_ROWS]), max(0, len(together) - MOST_ROWS)


def _merged(comparison: Comparison, members: Sequence[Group]) -> Row:
    """One row of all that `_together` put together."""
    row = _row(comparison, members[0])
    found = [group.headline for group in members]
    if row.kind == "changed":  # its evidence names the workloads
        having = [one.stack for one in _in_order(comparison, found)]
        return msgspec.structs.replace(row, stack=ranges(having, comparison.stacks, comparison.names), workload="")
    if row.kind == "failed" or len(found) == 1:
        return msgspec.structs.replace(row, workload=listing([one.workload for one in found], 3))
    ordered = _in_order(comparison, found)
    values = [f"{comparison.names[one.stack]} {_value(one)}" for one in ordered]
    each = (f"each: {listing(values, 12)}",) if len({_value(one) for one in ordered}) > 1 else ()
    return msgspec.structs.replace(
        row,
        stack=ranges([one.stack for one in ordered], comparison.stacks, comparison.names),
        evidence=(*each, *row.evidence),
    )


def _value(found: Finding) -> str:
    if isinstance(found.value, (int, float)) and not isinstance(found.value, bool):
        return short_quantity(found.value, found.unit)
    return str(found.value)


def _below(comparison: Comparison) -> str:
    if not comparison.small_differences:
        return ""
    count = plural(comparison.small_differences, "exact difference")
    return f"{count} below the thresholds: real, and too small to matter"


def _not_compared(comparison: Comparison) -> list[str]:
    together: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for entry in comparison.not_compared:
        together[entry.stack, entry.what, entry.reason].append(entry.workload)
    lines = []
    for (stack, what, reason), workloads in together.items():
        about = "" if what == "everything" else "step time: "
        lines.append(f"{comparison.names.get(stack, stack)}: {about}{reason} ({listing(workloads, 2)})")
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more"]
    return lines


def _control(comparison: Comparison) -> list[str]:
    baseline = comparison.names.get(comparison.baseline, comparison.baseline)
    if not comparison.control:
        return [f"step time: no control, since {baseline} has too few timed rounds or none"]
    lines = [
        f"{time.workload}: a step of {baseline} takes {ratio_text(time)} times as long as its own "
        f"({plural(time.pairs, 'pair')} of rounds)"
        for time in comparison.control[:MOST_LINES]
    ]
    if len(comparison.control) > MOST_LINES:
        ratios = sorted(time.ratio for time in comparison.control)
        lines.append(
            f"and {len(comparison.control) - MOST_LINES:,} more; all ratios lie in {ratios[0]:.2f} to {ratios[-1]:.2f}"
        )
    return lines


def _tables(comparison: Comparison, worse: Sequence[Group]) -> list[Table]:
    """Of the workloads with findings first, then of the others, up to a limit."""
    telling = dict.fromkeys(group.headline.workload for group in worse)
    wanted: dict[str, None] = dict(list(telling.items())[:MOST_TABLES])
    for workload in comparison.cells.workloads:
        if len(wanted) >= MOST_TABLES:
            break
        wanted[workload] = None
    times = {(time.stack, time.workload): time for time in comparison.step_times if time.workload in wanted}
    return [_table(comparison, workload, comparison.cells.of_workload(workload), times) for workload in wanted]


def _compatibility(comparison: Comparison) -> dict[str, Any]:
    """Of more workloads than there are tables: what each release comes to. Empty for fewer."""
    if len(comparison.cells.workloads) <= MOST_TABLES:
        return {"compatibility": (), "patterns": ()}
    matrix = compatibility.matrix(comparison)
    columns, rows = compatibility.counts(matrix, comparison.names)
    title = f"Compatibility: what becomes of {plural(len(matrix.workloads), 'workload')}"
    return {
        "compatibility": (Table(workload=title, columns=columns, rows=tuple(rows)),),
        "patterns": tuple(compatibility.patterns(matrix, comparison)),
    }


def _table(
    comparison: Comparison, workload: str, cells: dict[str, Measured], times: dict[tuple[str, str], StepTime]
) -> Table:
    rows = []
    simulated = next(iter(cells.values())).result.cell
    card = simulated.parameters.get("gpu") if simulated.device == "sim" else None
    columns = [column for column in _COLUMNS if simulated.device != "sim" or column[0] is not HOST_CALLS]
    titles = [f"{metric.heading} {phase}" for metric, _, phase in columns]
    headings = ("stack", *titles, *((_MODELLED, f"on {card}") if card else ("step time ratio",)))
    for stack in comparison.stacks:
        if stack.id not in cells:
            continue
        cell = cells[stack.id]
        name = comparison.names[stack.id] + (" (baseline)" if stack.id == comparison.baseline else "")
        if not cell.recorded:
            rows.append((name, *("-" for _ in headings[2:]), _ended(cell)))
            continue
        exact = cell.exact()
        readings = [(worst_rank(exact, metric, phase), metric.unit) for metric, phase, _ in columns]
        values = [short_quantity(reading.value, unit) if reading else "-" for reading, unit in readings]
        time = times.get((stack.id, workload))
        last = ratio_text(time) if time else "1" if stack.id == comparison.baseline and cell.round_s else "-"
        if not isinstance(cell.result.outcome, Passed):
            last = _ended(cell)
        elif card is not None:
            values.append(_least_step(cell, str(card)))
            last = fits(cell, str(card))
        rows.append((name, *values, *("-" for _ in headings[len(values) + 2 :]), last))
    return Table(workload=workload, columns=headings, rows=tuple(rows))


def _least_step(cell: Measured, card: str) -> str:
    """A model of the least time of a step of the simulated rank: no release can be faster on this card."""
    exact = cell.exact()
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
        gpus.card(card),
        str(parameters.get("dtype", "bf16")),
        int(parameters.get("world_size", 1)),
        state_bytes=cell.state_bytes,
    )
    return f">= {quantity(sum(bound.least_s for bound in bounds.values()), 's')}" if bounds else "-"


def _modelled(tables: Iterable[Table]) -> list[str]:
    """What a reader of a modelled column must know."""
    if not any(_MODELLED in table.columns for table in tables):
        return []
    return [f"{_MODELLED}: not measured; by peak FLOP/s and links no release can be faster on that card (docs/sim.md)"]


def fits(cell: Measured, card: str) -> str:
    """Whether the simulated rank fits a card, in words. Raises UsageError for a card that is not known."""
    phase = fit.fails_in(*recommend.peaks(cell), fit.available_bytes(gpus.card(card), cell.result.cell.parameters))
    return f"OUT OF MEMORY in {phase}" if phase else "fits"


def _ended(cell: Measured) -> str:
    """How a cell ended, short: its signature is told elsewhere."""
    outcome = cell.result.outcome
    return f"failed in {outcome.stage}" if isinstance(outcome, Failed) else shortened(outcome_text(outcome), 60)
