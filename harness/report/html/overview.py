"""The pages about all workloads: the matrix, the findings, the releases, the trends, two stacks beside each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from harness.compare import Comparison
from harness.compare.metrics import BY_NAME, METRICS
from harness.report import urls
from harness.report.html.badges import Standing, endpoint, standings
from harness.report.html.facts import Change, WorkloadSummary
from harness.report.html.frame import FindingLine, Frame
from harness.report.plain import plain
from harness.report.rows import Row, is_worse
from harness.report.view import View

#: Cells on one page of the matrix: about 250 kB.
_MOST_CELLS = 900

#: Lines of one list.
_MOST_LINES, _MOST_OF_A_KIND = 400, 25

#: What a release's page tells about the step from the release before, in this order.
_FAMILIES = ("memory", "step time", "host work", "compute", "communication")


def contexts(
    comparison: Comparison, frame: Frame, seen: View, rows: Sequence[Row], done: Sequence[WorkloadSummary]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """``(path, template, context)`` of each."""
    yield from _matrix(frame, seen, done, rows)
    lines = [FindingLine.of(row) for row in rows]
    shown = {
        "title": "Findings",
        "seen": _told(seen),
        "lines": lines[:_MOST_LINES],
        "more": max(0, len(lines) - _MOST_LINES),
    }
    yield "findings.html", "findings.html", shown
    yield from _releases(comparison, frame, rows, done)
    yield "trend.html", "trends.html", _trends(comparison, done)
    compared = {
        "title": "Compare two stacks",
        "files": [[release.name, urls.stack_data(release.id)] for release in frame.releases],
        "metrics": [[metric.name, metric.title, metric.unit, metric.direction.name] for metric in METRICS],
    }
    yield "compare.html", "compare.html", compared
    yield (
        "method.html",
        "method.html",
        {"title": "Method", "seen": _told(seen), "metrics": [_metric(name) for name in BY_NAME]},
    )


def stack_data(stack: str, done: Sequence[WorkloadSummary]) -> bytes:
    """A script that hands one stack's metrics to the page that compares: files may not be read from ``file://``."""
    parts = [
        msgspec.json.encode(plain(one.workload)) + b":" + one.figures.of(stack)
        for one in done
        if stack in one.figures.cells
    ]
    name = msgspec.json.encode(urls.stack_data(stack))
    return b"dsregressStack(" + name + b",{\n" + b",\n".join(parts) + b"\n})\n"


def badges(comparison: Comparison, frame: Frame) -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    """``(path, endpoint, context of the picture)`` for each scenario and stack."""
    for standing in standings(comparison):
        yield urls.badge(standing.scenario, standing.stack), endpoint(standing), _picture(standing)


def _picture(standing: Standing) -> dict[str, Any]:
    left, right = len(standing.label) * 6.6 + 12, len(standing.message) * 6.6 + 12
    return {"standing": standing, "left": round(left), "right": round(right)}


def _told(seen: View) -> dict[str, Any]:
    """What the pages about everything say of it."""
    names = ("verdict", "spans", "below", "not_compared", "control", "notes", "worst", "compatibility", "patterns")
    return {name: getattr(seen, name) for name in names}


def _metric(name: str) -> dict[str, Any]:
    metric = BY_NAME[name]
    return {
        "title": metric.title,
        "unit": metric.unit or "-",
        "direction": metric.direction.value,
        "exact": metric.exact,
        "fails": metric.fails or "-",
    }


def _matrix(
    frame: Frame, seen: View, done: Sequence[WorkloadSummary], rows: Sequence[Row]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    height = max(1, _MOST_CELLS // max(1, len(frame.releases)))
    count = max(1, -(-len(done) // height))
    for number in range(count):
        here = done[number * height : (number + 1) * height]
        context = {
            "title": "Version compatibility",
            "seen": _told(seen) if number == 0 else {},
            "number": number,
            "pages": [urls.matrix_page(at) for at in range(count)],
            "rows": [
                {
                    "workload": one.workload,
                    "page": urls.workload_page(one.workload),
                    "device": one.workload.rpartition("/")[2],
                    "spots": [one.spots.get(release.id) for release in frame.releases],
                }
                for one in here
            ],
            "devices": sorted({one.workload.rpartition("/")[2] for one in done}),
            "workloads": len(done),
            "top": [FindingLine.of(row) for row in rows[:8]] if number == 0 else [],
            "findings": len(rows),
        }
        yield urls.matrix_page(number), "matrix.html", context


def _releases(
    comparison: Comparison, frame: Frame, rows: Sequence[Row], done: Sequence[WorkloadSummary]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    lines: dict[str, list[FindingLine]] = defaultdict(list)
    worse: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    told: dict[str, dict[str, str]] = defaultdict(dict)  # stack -> message -> page, of defaults and numerics
    for row in rows:
        line = FindingLine.of(row)
        for stack in dict.fromkeys(group.headline.stack for group in row.groups):
            lines[stack].append(line)
        for group in row.groups:
            found = group.headline
            if is_worse(found):
                word = BY_NAME[found.metric].fails or "memory"
                worse[found.stack][word].add(found.workload)
            if found.kind == "changed" or BY_NAME[found.metric].fails == "numerics":
                told[found.stack][found.message] = line.page
    changes: dict[str, dict[str, list[Change]]] = defaultdict(lambda: defaultdict(list))
    for work in done:
        for change in work.changes:
            changes[change.stack][change.family].append(change)
    measured = {release.id: [one for one in done if release.id in one.spots] for release in frame.releases}
    for at, release in enumerate(frame.releases):
        before = frame.releases[at - 1] if at else None
        verdict, word = _safety(worse[release.id], len(measured[release.id]), release.baseline)
        yield (
            release.page,
            "release.html",
            {
                "title": f"Release {release.name}",
                "release": release,
                "before": before,
                "after": frame.releases[at + 1] if at + 1 < len(frame.releases) else None,
                "verdict": verdict,
                "word": word,
                "worse": {name: sorted(found)[:_MOST_OF_A_KIND] for name, found in sorted(worse[release.id].items())},
                "steps": _steps(comparison, changes[release.id]),
                "told": [
                    (message, page)
                    for message, page in told[release.id].items()
                    if before is None or message not in told[before.id]
                ][:_MOST_OF_A_KIND],
                "lines": lines[release.id][:_MOST_LINES],
                "more": max(0, len(lines[release.id]) - _MOST_LINES),
                "rows": [
                    {
                        "workload": one.workload,
                        "page": urls.workload_page(one.workload),
                        "spot": one.spots[release.id],
                    }
                    for one in measured[release.id][:_MOST_LINES]
                ],
                "workloads": len(measured[release.id]),
            },
        )


def _safety(worse: Mapping[str, set[str]], measured: int, baseline: bool) -> tuple[str, str]:
    """One sentence, and the kind whose sign and colour it has."""
    grave = set().union(*(worse.get(word, set()) for word in ("memory", "numerics", "crash")))
    if not measured:
        return "Nothing was measured with it.", "unjudged"
    if grave:
        return f"Not safe for {len(grave)} of the {measured:,} workloads measured.", "wrong"
    if worse:
        slow = set().union(*worse.values())
        return f"Safe, and slower or chattier on {len(slow)} of the {measured:,} workloads measured.", "changed"
    if baseline:
        return "The baseline: what the others are compared with, and no oracle is violated.", "baseline"
    return f"Safe for all of the {measured:,} workloads measured.", "ok"


def _steps(comparison: Comparison, changes: Mapping[str, list[Change]]) -> list[dict[str, Any]]:
    steps = []
    for family in _FAMILIES:
        found = sorted(changes.get(family, ()), key=lambda change: -change.size)
        if found:
            steps.append(
                {
                    "family": family,
                    "lines": [_line(comparison, change) for change in found[:_MOST_OF_A_KIND]],
                    "more": max(0, len(found) - _MOST_OF_A_KIND),
                }
            )
    return steps


def _line(comparison: Comparison, change: Change) -> dict[str, str]:
    return {
        "workload": change.workload,
        "page": urls.trend_page(change.workload),
        "series": change.series,
        "text": change.text,
        "stack": comparison.names[change.stack],
        "before": comparison.names[change.before],
        "release": urls.release_page(change.stack),
        "word": "more" if change.new > change.old else "less",
    }


def _trends(comparison: Comparison, done: Sequence[WorkloadSummary]) -> dict[str, Any]:
    changes = sorted((change for one in done for change in one.changes), key=lambda change: -change.size)
    order = {stack: at for at, stack in enumerate(comparison.names)}
    largest = sorted(changes[:_MOST_LINES], key=lambda change: (order[change.stack], -change.size))
    return {
        "title": "Trend",
        "lines": [_line(comparison, change) for change in largest],
        "more": max(0, len(changes) - _MOST_LINES),
        "workloads": [(one.workload, urls.trend_page(one.workload)) for one in done[:_MOST_LINES]],
    }
