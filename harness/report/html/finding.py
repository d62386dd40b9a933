"""The page of one finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from harness.compare import Comparison, Group, StepTime
from harness.compare.metrics import BY_NAME, DEVICE_PEAK, DEVICE_RETAINED, STEP_TIME
from harness.compare.readings import worst_rank
from harness.model import Finding
from harness.probe.border.wire import PHASES
from harness.report import urls
from harness.report.html import explain, next_steps, words
from harness.report.html.explain import Explained
from harness.report.html.facts import Facts
from harness.report.rows import Row
from harness.wording.quantities import quantity

#: What a page lists of one kind of thing.
_MOST = 30

#: As in the tables of the other reports.
_SHORT = {"forward": "fwd", "backward": "bwd"}

#: What is charted of each phase.
_MARKS = (DEVICE_PEAK, DEVICE_RETAINED)
_KIND = {"wrong": "it fails a check that needs no baseline", "failed": "it does not complete"}
_SECTION = {"Worse": "worse than the baseline", "Improved": "better than the baseline"}


def finding_context(
    comparison: Comparison,
    row: Row,
    seen: Facts,
    beside: Sequence[Row],
    times: Mapping[str, StepTime],
    explained: Explained,
) -> dict[str, Any]:
    """``beside`` are the rows of the same workload."""
    groups = row.groups
    found = groups[0].headline
    with_it = {group.headline.stack for group in groups}
    having = [stack for stack in comparison.names if stack in with_it]
    measured = [s for s in comparison.names if s in with_it or _has_verdict(s, found, seen, times)]
    told = words.story(found, having, measured, comparison.names)
    holders = explain.holders(comparison, groups, explained)
    said, rest = words.configuration(seen.parameters, seen.device)
    workloads = list(dict.fromkeys(g.headline.workload for g in groups))
    return {
        "title": f"{row.stack}: {found.message}",
        "kind": found.kind,
        "metric": BY_NAME[found.metric].title,
        "phase": found.phase,
        "section": _KIND.get(found.kind) or _SECTION.get(row.section, row.section.lower()),
        "message": found.message,
        "stacks": row.stack,
        "relevant": found.relevant,
        "significant": found.significant,
        "story": told,
        "configuration": said,
        "parameters": rest,
        "workloads": [(workload, urls.workload_page(workload)) for workload in workloads[:_MOST]],
        "more_workloads": max(0, len(workloads) - _MOST),
        "figures": [_figure(comparison, group.headline) for group in _in_order(comparison, groups)[:_MOST]],
        "evidence": [line for line in row.evidence if holders is None or line not in holders.lines],
        "related": row.related[:_MOST],
        "reproduce": row.reproduce,
        "live": _live(comparison, found),
        "versions": _versions(comparison, found),
        "defaults": [
            other.message
            for other in beside
            if found.kind != "changed"
            and other.kind == "changed"
            and found.stack in {group.headline.stack for group in other.groups}
        ][:_MOST],
        "detail": _detail(comparison, found),
        "holders": holders,
        "next_steps": next_steps.next_steps(comparison, groups, told, seen.parameters),
    }


def _in_order(comparison: Comparison, groups: Sequence[Group]) -> list[Group]:
    order = {stack: at for at, stack in enumerate(comparison.names)}
    return sorted(groups, key=lambda group: order[group.headline.stack])


def _has_verdict(stack: str, found: Finding, seen: Facts, times: Mapping[str, StepTime]) -> bool:
    if seen.outcomes.get(stack) != "passed":
        return False
    if found.metric != STEP_TIME.name:
        return True
    return stack not in times or times[stack].verdict != "unknown"


def _figure(comparison: Comparison, found: Finding) -> dict[str, str]:
    return {
        "stack": comparison.names[found.stack],
        "page": urls.release_page(found.stack),
        "value": _text(found.value, found.unit),
        "baseline": _text(found.baseline_value, found.unit),
        "ratio": f"{found.ratio:.3g}" if found.ratio is not None else "-",
        "interval": f"{found.interval[0]:.2f} to {found.interval[1]:.2f}" if found.interval else "",
        "rank": "-" if found.rank is None else str(found.rank),
    }


def _text(value: Any, unit: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return quantity(value, unit)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 300 else f"{text[:300]} ..."


def _live(comparison: Comparison, found: Finding) -> dict[str, Any] | None:
    """Device memory of both stacks at every mark that was measured: each phase's peak, and what is held at its end."""
    if BY_NAME[found.metric].fails != "memory":
        return None
    workload = found.workload
    lines = []
    for stack in dict.fromkeys((comparison.baseline, found.stack)):
        cell = comparison.cells.of(stack, workload)
        if cell is None or not cell.recorded:
            continue
        exact = cell.exact
        values: list[float | None] = []
        for phase in PHASES:
            for metric in _MARKS:
                reading = worst_rank(exact, metric, phase)
                values.append(reading.value if reading else None)
        lines.append({"name": comparison.names[stack], "values": values})
    marks = [f"{metric.heading} {_SHORT.get(phase, phase)}" for phase in PHASES for metric in _MARKS]
    return {"marks": marks, "lines": lines} if lines else None


def _versions(comparison: Comparison, found: Finding) -> list[tuple[str, str, str]]:
    """Package, the baseline's version, this one's: where they differ."""
    by_id = dict(zip(comparison.names, comparison.stacks, strict=True))
    base, own = by_id.get(comparison.baseline), by_id[found.stack]
    if base is None:
        return []
    names = sorted({*base.versions, *own.versions})
    return [
        (name, base.versions.get(name, "-"), own.versions.get(name, "-"))
        for name in names
        if base.versions.get(name) != own.versions.get(name)
    ]


def _detail(comparison: Comparison, found: Finding) -> str:
    """The end of the log of what failed."""
    if found.kind != "failed":
        return ""
    cell = comparison.cells.of(found.stack, found.workload)
    detail = getattr(cell.result.outcome, "detail", "") if cell is not None else ""
    return str(detail)[-4000:]
