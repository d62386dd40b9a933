"""The report before formatting: every number is computed and every sentence written once."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from dsregress.advice import gpus
from dsregress.compare.comparison import EVERYTHING
from dsregress.compare.release_ranges import ranges
from dsregress.compare.step_times import ratio_text
from dsregress.messages import TO, Message, Text, joined, message, name_list
from dsregress.report import rows, tables
from dsregress.report.context import ReportContext
from dsregress.report.first_screen import FirstScreen, first_screen
from dsregress.report.measuring_again import command_of_finding
from dsregress.report.plain_text import plain
from dsregress.report.rows import Section
from dsregress.report.tables import Table
from dsregress.wording.quantities import listing, plural

#: Lines of one list; the JSON report has everything.
MOST_LINES = 12


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a report in any format."""

    screen: FirstScreen  #: the answer; the rest are its details
    measured: str  #: one line: what it is based on
    sections: tuple[Section, ...]  #: findings, worst section first; empty ones are left out
    below: str  #: about real differences below the thresholds; empty if there are none
    not_compared: tuple[str, ...]  #: a line for each reason
    without_verdict: int  #: the number of cells in these lines
    control: tuple[str, ...]
    tables: tuple[Table, ...]
    compatibility: tuple[Table, ...]  #: of a sweep: one table, the number of each release's workloads by word
    patterns: tuple[str, ...]  #: of a sweep: which workloads do not pass in which releases
    notes: tuple[str, ...]
    reproduce: str  #: the command that measures the first problem again; empty if there is none


def report_view(context: ReportContext) -> View:
    """Return the view of a comparison."""
    by_section = rows.by_section(context)
    sections = tuple(rows.sections(context))
    worse, alike = by_section[rows.WORSE], by_section[rows.FAILS_TOO]
    workloads = tables.workload_tables(context, [*worse, *alike])
    compatibility, patterns = tables.compatibility_table(context)
    screen = first_screen(context, _headline(context), _missing(context))
    return View(
        screen=screen,
        measured=_measured_words(context),
        sections=sections,
        below=_below(context),
        not_compared=tuple(_not_compared(context)),
        without_verdict=len({(one.stack, one.workload) for one in context.comparison.not_compared}),
        control=tuple(_control(context)),
        tables=tuple(workloads),
        compatibility=tuple(compatibility),
        patterns=tuple(patterns),
        notes=(
            *context.comparison.notes,
            *_not_judged(context),
            *_unknown_cards(context),
            *tables.table_notes(workloads),
        ),
        reproduce=_reproduce(context, screen),
    )


def _reproduce(context: ReportContext, screen: FirstScreen) -> str:
    """Return the command that measures problem 1 again, by its worst finding; empty if there is no problem."""
    if not screen.sections:
        return ""
    return command_of_finding(context, screen.sections[0].problems[0].worst)


def not_measured_text(context: ReportContext) -> str:
    """Return one line about stacks with cells that should have been measured and were not, why, and what to do; empty if
    there are none."""
    together: dict[tuple[str, str], dict[str, list[str]]] = {}
    for entry in context.comparison.not_measured:
        stacks = together.setdefault((entry.reason, entry.remedy), {})
        stacks.setdefault(context.name_of(entry.stack), []).append(entry.workload)
    parts = [
        f"{listing([f'{stack} ({listing(workloads, 2)})' for stack, workloads in stacks.items()], 12)}: {reason}"
        for (reason, _), stacks in together.items()
    ]
    remedies = dict.fromkeys(remedy for _, remedy in together)
    return plain(f"{'; '.join([*parts, *remedies])}")


def _missing(context: ReportContext) -> Text:
    """Return the names of the stacks with cells that should have been measured and were not."""
    return name_list(list(dict.fromkeys(context.name_of(one.stack) for one in context.comparison.not_measured)), 10)


def _headline(context: ReportContext) -> Message:
    """Return the headline of a comparison without a problem."""
    if context.comparison.passed == 0:
        reasons = {entry.reason for entry in context.comparison.not_compared if entry.what == EVERYTHING}
        if len(reasons) == 1:
            return message("Nothing was measured: {reason}", reason=reasons.pop())
        return message("Nothing was measured")
    others = any(stack.id != context.comparison.baseline for stack in context.comparison.stacks)
    if others and context.comparison.compared == 0:
        reasons = {entry.reason for entry in context.comparison.not_compared if entry.what == EVERYTHING}
        if len(reasons) == 1:
            return message("Nothing could be compared with the baseline: {reason}", reason=reasons.pop())
        return message("Nothing could be compared with the baseline")
    if not others:
        return message("One stack measured: nothing to compare it with; the checks that need no baseline pass")
    if reason := context.comparison.why_nothing_goes_on:
        return message("Nothing could be compared of what goes on from a checkpoint: {reason}", reason=reason)
    return message("Nothing is worse than the baseline")


def _measured_words(context: ReportContext) -> str:
    comparison, names = context.comparison, list(context.comparison.names.values())
    what = f"{context.only_axis} " if context.only_axis else ""
    workloads = len(comparison.cells.workloads)
    when = f"; measured {joined(TO, comparison.measured_days)}" if comparison.measured_days else ""
    return (
        f"Measured {what}{listing(names, 12)} on {plural(workloads, 'workload')}: "
        f"{comparison.passed:,} of {plural(comparison.ran, 'cell')} passed, {comparison.compared:,} compared with "
        f"the baseline {context.baseline}{when}"
    )


def _below(context: ReportContext) -> str:
    if not context.comparison.small_differences:
        return ""
    count = plural(context.comparison.small_differences, "exact difference")
    return f"{count} below the thresholds: real, and too small to matter"


def _not_compared(context: ReportContext) -> list[str]:
    workloads: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for left_out in context.comparison.not_compared:
        workloads[left_out.what, left_out.reason, left_out.stack].append(left_out.workload)
    stacks: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (what, reason, stack), found in workloads.items():
        stacks[what, reason, tuple(found)].append(stack)
    lines = []
    for (what, reason, on), left_out_of in itertools.islice(stacks.items(), MOST_LINES):
        about = "" if what == EVERYTHING else "step time: "
        lines.append(f"{_releases(left_out_of, context)}: {about}{reason} ({listing(on, 2)})")
    if len(stacks) > MOST_LINES:
        lines.append(f"and {len(stacks) - MOST_LINES} more")
    return lines


def _not_judged(context: ReportContext) -> list[str]:
    """Return a line for each oracle and reason."""
    return [
        _noted(f"not judged by the {missing.oracle} oracle: {missing.reason}", missing.stacks_by_workload, context)
        for missing in context.comparison.not_judged
    ]


def _unknown_cards(context: ReportContext) -> list[str]:
    """Return a line for each card that results name and this version does not know."""
    return [
        _noted(f"whether it fits its card is not said: {card} is not known here", cells, context)
        for card, cells in context.comparison.cards.items()
        if gpus.known_card(card) is None
    ]


def _noted(note: str, stacks_by_workload: Mapping[str, Sequence[str]], context: ReportContext) -> str:
    """Return a note with the cells that it is about."""
    stacks = {stack for by_workload in stacks_by_workload.values() for stack in by_workload}
    of = "" if len(stacks) == len(context.comparison.stacks) else f"{_releases(sorted(stacks), context)}: "
    return f"{of}{note} ({listing(list(stacks_by_workload), 2)})"


def _releases(ids: Sequence[str], context: ReportContext) -> str:
    if len(context.axes) > 1 or not context.comparison.names.keys() >= set(ids):
        return listing([context.name_of(stack) for stack in ids])
    in_order = [stack.id for stack in context.comparison.stacks if stack.id in ids]
    return ranges(in_order, context.comparison.stacks, context.comparison.names)


def _control(context: ReportContext) -> list[str]:
    baseline = context.baseline
    if not context.comparison.control:
        return [f"step time: no control, since {baseline} has too few timed rounds or none"]
    lines = [
        f"{time.workload}: a step of {baseline} takes {ratio_text(time)} times as long as its own "
        f"({plural(time.pairs, 'pair')} of rounds)"
        for time in context.comparison.control[:MOST_LINES]
    ]
    left = len(context.comparison.control) - MOST_LINES
    if left > 0:
        ratios = sorted(time.ratio for time in context.comparison.control)
        lines.append(f"and {left:,} more; all ratios lie in {ratios[0]:.2f} to {ratios[-1]:.2f}")
    return lines
