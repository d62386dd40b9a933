"""Findings as rows for a reader, which join related findings, and the sections of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dsregress.compare import Group
from dsregress.compare.release_ranges import ranges
from dsregress.model import Finding
from dsregress.report.context import ReportContext
from dsregress.report.measuring_again import command_of_finding
from dsregress.wording.quantities import listing, short_quantity

#: Rows of a section; the JSON report has all findings.
MOST_ROWS = 30

#: Titles of the sections, in their order.
WORSE, FAILS_TOO, IMPROVED, CHANGED = SECTIONS = (
    "Worse",
    "Fails for the baseline too",
    "Improved",
    "Changed defaults and new warnings",
)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One finding, or several that read as one: the same failure on several workloads, the same default on several
    stacks, the same metric of one workload on several stacks."""

    section: str  #: the title of its section
    stack: str  #: names, as ranges: ``0.16.0 to 0.16.7``
    workload: str  #: empty if the evidence names the workloads
    kind: str
    message: str
    evidence: tuple[str, ...]
    related: tuple[str, ...]  #: the findings that moved together with it
    reproduce: str  #: the command that measures this cell again, and the baseline's
    groups: tuple[Group, ...]  #: the groups that it joins, the worst first

    @property
    def headline(self) -> Finding:
        """Return the worst finding."""
        return self.groups[0].headline


class Section(msgspec.Struct, frozen=True):
    """Rows under one heading."""

    title: str
    rows: tuple[Row, ...]
    more: int  #: rows beyond the limit


def is_worse(found: Finding) -> bool:
    """Return True if a finding needs action: a relevant regression, failure or wrong result."""
    return found.kind in ("regression", "wrong", "failed") and found.relevant


def section_of(found: Finding) -> str:
    """Return the title of a finding's section; empty if the finding is too small to be listed."""
    if is_worse(found):
        return WORSE
    if found.kind == "failed":
        return FAILS_TOO
    if found.kind == "improvement" and found.relevant:
        return IMPROVED
    return CHANGED if found.kind == "changed" else ""


def by_section(context: ReportContext) -> dict[str, list[Group]]:
    """Return title -> its groups of findings; worst section first, empty ones included."""
    found: dict[str, list[Group]] = {title: [] for title in SECTIONS}
    for group in context.comparison.groups:
        if title := section_of(group.headline):
            found[title].append(group)
    return found


def sections(context: ReportContext) -> list[Section]:
    """Return the sections that have rows, each with its first `MOST_ROWS`."""
    found = []
    for title, groups in by_section(context).items():
        together = _merged_groups(groups)
        if together:
            rows = tuple(_finding_row(context, title, members) for members in together[:MOST_ROWS])
            found.append(Section(title, rows, max(0, len(together) - MOST_ROWS)))
    return found


def all_rows(context: ReportContext) -> list[Row]:
    """Return every row of every section, worst first."""
    return [
        _finding_row(context, title, members)
        for title, groups in by_section(context).items()
        for members in _merged_groups(groups)
    ]


def in_version_order(context: ReportContext, found: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of the comparison's stacks; those of unknown stacks come first."""
    order = context.order
    return sorted(found, key=lambda finding: order.get(finding.stack, -1))


def _merged_groups(groups: Sequence[Group]) -> list[list[Group]]:
    """Return the groups of each row, the worst first."""
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


def _finding_row(context: ReportContext, section: str, members: Sequence[Group]) -> Row:
    findings = [group.headline for group in members]
    ordered = in_version_order(context, findings)
    worst = findings[0]
    stack, workload, evidence = context.name_of(worst.stack), worst.workload, worst.evidence
    if worst.kind == "changed":  # its evidence names the workloads
        stack, workload = (
            ranges([found.stack for found in ordered], context.comparison.stacks, context.comparison.names),
            "",
        )
    elif worst.kind == "failed" or len(findings) == 1:
        workload = listing([found.workload for found in findings], 3)
    else:
        stack = ranges([found.stack for found in ordered], context.comparison.stacks, context.comparison.names)
        evidence = (*_value_of_each(context, ordered), *evidence)
    return Row(
        section=section,
        stack=stack,
        workload=workload,
        kind=worst.kind,
        message=worst.message,
        evidence=evidence,
        related=tuple(finding.message for finding in members[0].related),
        reproduce=command_of_finding(context, worst),
        groups=tuple(members),
    )


def _value_of_each(context: ReportContext, ordered: Sequence[Finding]) -> tuple[str, ...]:
    """Return one line with the value of each stack; no line if all values are equal."""
    if len({_value_text(found) for found in ordered}) == 1:
        return ()
    values = [f"{context.name_of(found.stack)} {_value_text(found)}" for found in ordered]
    return (f"each: {listing(values, 12)}",)


def _value_text(found: Finding) -> str:
    if isinstance(found.value, (int, float)) and not isinstance(found.value, bool):
        return short_quantity(found.value, found.unit)
    return str(found.value)
