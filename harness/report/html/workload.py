"""The pages of one workload: what it holds, where it fits, which release to pin; and its metrics over the releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.compare import Comparison, StepTime
from harness.compare.metrics import BY_NAME
from harness.compare.timing import ratio_text
from harness.report import urls
from harness.report.html import words
from harness.report.html.facts import Facts, Spot
from harness.report.html.frame import FindingLine
from harness.report.rows import Row, is_worse
from harness.wording.quantities import short_quantity

#: Charts of one page; the other series are in its tables.
_MOST_CHARTS = 6


def workload_context(
    comparison: Comparison,
    seen: Facts,
    spots: Mapping[str, Spot],
    rows: Sequence[Row],
    times: Mapping[str, StepTime],
) -> dict[str, Any]:
    said, rest = words.configuration(seen.parameters, seen.device)
    releases = []
    for at, stack in enumerate(comparison.names):
        if stack not in seen.outcomes:
            continue
        releases.append(
            {
                "at": at,
                "spot": spots[stack],
                "outcome": seen.outcomes[stack],
                "peaks": [_bytes(values[at]) for _, values in seen.memory],
                "time": ratio_text(times[stack]) if stack in times else "-",
                "time_verdict": times[stack].verdict if stack in times else "",
            }
        )
    return {
        "workload": seen.workload,
        "title": seen.workload,
        "trend": urls.trend_page(seen.workload),
        "configuration": said,
        "parameters": rest,
        "device": seen.device,
        "rows": releases,
        "memory": seen.memory,
        "labels": list(comparison.names.values()),
        "cards": seen.cards,
        "lines": [FindingLine.of(row) for row in rows],
        "pins": _pins(comparison, seen, rows),
    }


def trend_context(comparison: Comparison, seen: Facts) -> dict[str, Any]:
    names = list(comparison.names.values())
    charted = []
    for series in seen.moved[:_MOST_CHARTS]:
        charted.append(
            {
                "title": series.title,
                "unit": series.unit,
                "exact": series.exact,
                "values": series.values,
                "marks": series.changes,
                "texts": [series.text(at) for at in range(len(names))],
                "changes": [change.text for change in seen.changes if change.series == series.title],
                "where": [comparison.names[change.stack] for change in seen.changes if change.series == series.title],
            }
        )
    return {
        "workload": seen.workload,
        "title": f"Trend of {seen.workload}",
        "page": urls.workload_page(seen.workload),
        "labels": names,
        "charted": charted,
        "more": [series.title for series in seen.moved[_MOST_CHARTS:]],
        "still": [
            {
                "title": series.title,
                "text": next((series.text(at) for at in range(len(names)) if series.values[at] is not None), "-"),
            }
            for series in seen.still
        ],
    }


def _bytes(value: float | None) -> str:
    return "-" if value is None else short_quantity(value, "bytes")


def _pins(comparison: Comparison, seen: Facts, rows: Sequence[Row]) -> list[dict[str, str]]:
    """The newest release without a finding that ends or spoils a job, and the newest without any."""
    grave: set[str] = set()
    any_worse: set[str] = set()
    for row in rows:
        for group in row.groups:
            found = group.headline
            if found.workload != seen.workload or not is_worse(found):
                continue
            any_worse.add(found.stack)
            if BY_NAME[found.metric].fails != "time":
                grave.add(found.stack)
    passed = [stack for stack in comparison.names if seen.outcomes.get(stack) == "passed"]
    pins = []
    for what, bad in (
        ("without a finding on memory, numerics or crashes", grave),
        ("without any finding", any_worse),
    ):
        newest = next((stack for stack in reversed(passed) if stack not in bad), "")
        pins.append(
            {
                "what": what,
                "name": comparison.names[newest] if newest else "",
                "page": urls.release_page(newest) if newest else "",
            }
        )
    return pins
