"""The page of one problem: its workloads, since and until when, why, what to do, and the script that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from dsregress.bisect import questions
from dsregress.compare import Problem
from dsregress.compare.metrics import BY_NAME
from dsregress.errors import UsageError
from dsregress.probe.adapters import DEEPSPEED
from dsregress.report import urls
from dsregress.report.context import ReportContext
from dsregress.report.html.page import FindingLine, Page
from dsregress.report.measuring_again import has_commits
from dsregress.report.problem_facts import ProblemFacts
from dsregress.report.problem_kinds import KINDS
from dsregress.report.problem_lines import ProblemLine
from dsregress.report.upstream_changes import UpstreamChange
from dsregress.reproduce.upstream import UpstreamProblem
from dsregress.wording import addresses, commands

#: Entries of each list of a page.
_MOST = 30


class ScriptRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the script, or of the script with a setting."""

    what: str  #: the release, or the release and the setting
    page: str  #: of the release, at the index
    ending: str
    line: str


class ScriptText(msgspec.Struct, frozen=True, kw_only=True):
    """The script, and its runs."""

    name: str
    confirmed: bool
    text: str
    rows: tuple[ScriptRow, ...]


class ProblemPage(Page, frozen=True, kw_only=True):
    """One problem."""

    template: ClassVar[str] = "problem.html"
    line: ProblemLine
    heading: str
    kind: str
    what: str  #: a sentence on what happens; empty if the heading says it
    conditions: tuple[tuple[str, str], ...]  #: label and text; empty if they were not determined
    workloads: tuple[tuple[str, str], ...]  #: name and page
    more_workloads: int
    changes: tuple[tuple[str, UpstreamChange], ...]  #: ``introduced`` or ``ended``, and the change
    script: ScriptText | None
    in_part: str  #: why the script confirms only a part of it; empty if it confirms all
    why_no_script: str
    by_hand: str
    make_script: str  #: the command that writes one; empty if there is a script, or a reason for none
    upstream: UpstreamProblem | None
    use_url: str  #: of the release to use, at the index
    findings: tuple[FindingLine, ...]
    more_findings: int


def problem_page(
    context: ReportContext,
    problem: Problem,
    line: ProblemLine,
    facts: ProblemFacts,
    findings: Sequence[FindingLine],
) -> ProblemPage:
    """Return the page of a problem. ``line`` is its line in the report; ``findings`` are the rows of its findings, worst
    first."""
    heading = facts.title.title if facts.title is not None else line.text
    changes = [(what, one) for what, found in (("introduced", facts.began), ("ended", facts.ended)) for one in found]
    return ProblemPage(
        title=f"{line.releases}: {heading}",
        line=line,
        heading=heading,
        kind=KINDS[line.kind].section.capitalize(),
        what=facts.title.what if facts.title is not None else "",
        conditions=facts.conditions(),
        workloads=tuple((workload, urls.workload_page(workload)) for workload in line.workloads[:_MOST]),
        more_workloads=max(0, len(line.workloads) - _MOST),
        changes=tuple(changes),
        script=_script(facts),
        in_part=facts.in_part,
        why_no_script=facts.why_no_script,
        by_hand=facts.by_hand,
        make_script="" if facts.why_no_script or facts.reproduction is not None else _make_script(context, problem),
        upstream=facts.upstream,
        use_url=_release_url(context, line.release_to_use),
        findings=tuple(findings[:_MOST]),
        more_findings=max(0, len(findings) - _MOST),
    )


def _script(facts: ProblemFacts) -> ScriptText | None:
    found = facts.reproduction
    if found is None or found.script is None:
        return None
    rows = [(f"{found.package} {run.version}", run) for run in found.runs]
    rows += [(f"{found.package} {run.version}, with {run.text}", run) for run in facts.remedies]
    return ScriptText(
        name=f"{found.name}.py",
        confirmed=found.confirmed,
        text=found.script,
        rows=tuple(
            ScriptRow(
                what=what,
                page=addresses.release_url(found.package, run.version),
                ending="-" if run.exit_code is None else str(run.exit_code),
                line=run.line,
            )
            for what, run in rows
        ),
    )


def _make_script(context: ReportContext, problem: Problem) -> str:
    """Return the command that writes a script; empty if `reproduce` cannot write one: it needs a small size, CPU ranks and
    DeepSpeed's own engine."""
    found = problem.worst
    cell = context.comparison.cells.of(found.stack, found.workload)
    metric = BY_NAME[found.metric].flat_name(found.phase)
    own = context.stacks[found.stack]
    if cell is None or cell.result.cell.framework != DEEPSPEED or found.device != "cpu" or has_commits(own):
        return ""
    try:
        questions.parse_question(metric)
    except UsageError:
        return ""
    return commands.reproduce(found.cell, metric)


def _release_url(context: ReportContext, stack: str) -> str:
    """Return the address of a stack's release at the index; empty unless the stacks differ in one package only."""
    axis = context.only_axis
    if not stack or axis in ("", "python"):
        return ""
    return addresses.release_url(axis, context.stacks[stack].versions[axis])
