"""The same findings in the formats of other tools, each as text. ``FORMATS`` has them all.

=========== =====================================================================================================
junit       JUnit XML: one test case for each cell. Sources: Jenkins' xunit plugin and Apache Ant, as read by CI systems
pytest-benchmark  the JSON that ``pytest-benchmark compare`` reads: step times by rounds, exact metrics in ``extra_info``
summary     Markdown for a job summary: exact findings first, noisy ones folded
=========== =====================================================================================================
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from xml.etree import ElementTree

import msgspec

from dsregress.advisories.advisory import Advisory
from dsregress.compare import Group
from dsregress.compare.result_summary import ResultSummary
from dsregress.model import Failed, MachineFault, OutOfMemory, Passed, Skipped, TimedOut
from dsregress.report.comparison.comparison_comment import comparison_comment
from dsregress.report.comparison.job_summary import summary_markdown
from dsregress.report.context import ReportContext
from dsregress.report.plain_text import plain
from dsregress.report.rows import is_worse
from dsregress.wording.names import outcome_text


def junit(context: ReportContext) -> str:
    """Return one suite for each stack, and one test case for each cell. A worse cell is a failure, but a skip if advisories
    know all that is worse; one that did not run is a skip too. One that ends as the baseline's does is an error of the
    baseline alone."""
    worse = _worse(context)
    root = ElementTree.Element("testsuites", name="dsregress")
    suites: dict[str, ElementTree.Element] = {}
    for cell in context.comparison.cells:
        stack = cell.result.cell.stack.id
        if stack not in suites:
            suites[stack] = ElementTree.SubElement(root, "testsuite", name=_xml(context.name_of(stack)))
        case = ElementTree.SubElement(
            suites[stack],
            "testcase",
            classname=_xml(context.name_of(stack)),
            name=_xml(cell.result.cell.workload),
            time=f"{cell.result.duration_s:.3f}",
        )
        _ending(case, cell, context, worse.get((stack, cell.result.cell.workload), []))
    for suite in (root, *suites.values()):
        cases = list(suite.iter("testcase"))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(name, str(sum(case.find(tag) is not None for case in cases)))
        suite.set("tests", str(len(cases)))
        suite.set("time", f"{sum(float(case.get('time', 0)) for case in cases):.3f}")
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _ending(case: ElementTree.Element, cell: ResultSummary, context: ReportContext, worse: list[Group]) -> None:
    outcome, knowledge = cell.result.outcome, context.knowledge
    stack, workload = cell.result.cell.stack.id, cell.result.cell.workload
    baseline = context.comparison.baseline
    lines = [_xml(line) for group in worse for line in (group.headline.message, *group.headline.evidence)]
    known = [knowledge.of_finding(group.headline) for group in worse]
    if isinstance(outcome, Skipped):
        ElementTree.SubElement(case, "skipped", message=_xml(outcome.reason))
    elif worse and all(known):
        _skip_known(case, [one for found in known for one in found], lines)
    elif worse:
        first = next(group.headline for group, found in zip(worse, known, strict=True) if not found)
        failure = ElementTree.SubElement(case, "failure", type=first.kind, message=_xml(first.message))
        failure.text = "\n".join(lines)
    elif isinstance(outcome, Failed | OutOfMemory | TimedOut | MachineFault):
        ended = outcome_text(outcome)
        if advisories := knowledge.of_outcome(stack, workload, ended):
            _skip_known(case, advisories, [_xml(ended)])
        elif stack != baseline and baseline in context.comparison.ended.get(workload, {}):
            too = f"does not run to the end in {context.baseline} either: {ended}"
            ElementTree.SubElement(case, "skipped", message=_xml(too))
        else:
            ElementTree.SubElement(case, "error", type=str(outcome.__struct_config__.tag), message=_xml(ended))


def _skip_known(case: ElementTree.Element, advisories: Iterable[Advisory], lines: Sequence[str]) -> None:
    names = dict.fromkeys(f"{one.id} {one.title}" for one in advisories)
    ElementTree.SubElement(case, "skipped", message=_xml(f"known: {'; '.join(names)}")).text = "\n".join(lines)


def _xml(text: str) -> str:
    """Return text without the characters that XML 1.0 cannot represent; ElementTree escapes the rest."""
    return "".join(char for char in plain(text) if char >= " " and not "\ud800" <= char <= "\udfff" and char < "\ufffe")


def pytest_benchmark(context: ReportContext) -> str:
    """Return one benchmark for each cell that was timed, grouped by workload, so that ``compare`` compares stacks."""
    benchmarks: list[dict[str, Any]] = []
    newest = ""
    for cell in context.comparison.cells:
        if not cell.round_s or not isinstance(cell.result.outcome, Passed):
            continue
        newest = max(newest, cell.result.started_at)
        name = f"{cell.result.cell.workload}[{context.name_of(cell.result.cell.stack.id)}]"
        benchmarks.append(
            {
                "group": plain(cell.result.cell.workload),
                "name": plain(name),
                "fullname": plain(f"dsregress::{name}"),
                "params": {"stack": plain(context.name_of(cell.result.cell.stack.id))},
                "param": plain(context.name_of(cell.result.cell.stack.id)),
                "extra_info": cell.worst(),
                "options": {"warmup": True, "timer": "perf_counter"},
                "stats": round_statistics(cell.round_s),
            }
        )
    content = {
        "machine_info": {},
        "commit_info": {"id": "", "time": newest, "dirty": False, "branch": ""},
        "benchmarks": benchmarks,
        "datetime": newest,
        "version": "5.0.0",
    }
    return _json(content)


def _worse(context: ReportContext) -> dict[tuple[str, str], list[Group]]:
    found: dict[tuple[str, str], list[Group]] = {}
    for group in context.comparison.groups:
        head = group.headline
        if is_worse(head):
            found.setdefault((head.stack, head.workload), []).append(group)
    return found


def _json(content: object) -> str:
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"


#: Name -> the function that formats a comparison.
FORMATS: dict[str, Callable[[ReportContext], str]] = {
    "junit": junit,
    "pytest-benchmark": pytest_benchmark,
    "summary": summary_markdown,
    "comment": comparison_comment,
}


def round_statistics(round_s: Sequence[float]) -> dict[str, object]:
    """Return the statistics that pytest-benchmark stores of a benchmark's rounds, in seconds, under its names."""
    ordered = sorted(round_s)
    quarters = statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else [ordered[0]] * 3
    spread = quarters[2] - quarters[0]
    low, high = quarters[0] - 1.5 * spread, quarters[2] + 1.5 * spread
    mean, deviation = statistics.fmean(ordered), statistics.stdev(ordered) if len(ordered) > 1 else 0.0
    inside = [value for value in ordered if low <= value <= high]
    far = sum(abs(value - mean) > deviation for value in ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": deviation,
        "rounds": len(ordered),
        "median": quarters[1],
        "iqr": spread,
        "q1": quarters[0],
        "q3": quarters[2],
        "iqr_outliers": len(ordered) - len(inside),
        "stddev_outliers": far,
        "outliers": f"{far};{len(ordered) - len(inside)}",
        "ld15iqr": inside[0],
        "hd15iqr": inside[-1],
        "ops": 1 / mean if mean else 0.0,
        "total": sum(ordered),
        "data": list(round_s),
        "iterations": 1,
    }
