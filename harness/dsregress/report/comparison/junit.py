"""A comparison as JUnit XML: a test case for each cell.

Sources: Jenkins' xunit plugin and Apache Ant, as read by CI systems.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

from dsregress.advisories.advisory import Advisory
from dsregress.compare import Group
from dsregress.compare.result_summary import ResultSummary
from dsregress.model import Failed, MachineFault, OutOfMemory, Skipped, TimedOut
from dsregress.report.context import ReportContext
from dsregress.report.plain_text import plain
from dsregress.report.rows import is_worse
from dsregress.wording.names import outcome_text


def junit(context: ReportContext) -> str:
    """Return the suites as text."""
    root = junit_suites(context)
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def junit_suites(context: ReportContext) -> ElementTree.Element:
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
    return root


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


def _worse(context: ReportContext) -> dict[tuple[str, str], list[Group]]:
    found: dict[tuple[str, str], list[Group]] = {}
    for group in context.comparison.groups:
        head = group.headline
        if is_worse(head):
            found.setdefault((head.stack, head.workload), []).append(group)
    return found
