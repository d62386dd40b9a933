"""``results/findings.md``, written from published results: a template holds the words, results and answers hold the figures.

In the template ``problems(BUNDLE, ...)`` are the problems of a comparison as the site has them, each a `PublishedProblem`,
and ``outcomes(BUNDLE, ...)`` is its table of releases by outcome.
"""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path

import pytest
from packaging.version import Version

from dsregress.cli import options
from dsregress.cli.stored_results import most_common, stack_id
from dsregress.compare import Comparison, ProblemKind
from dsregress.model import Verdict
from dsregress.report.context import report_context
from dsregress.report.plain_text import markdown, markdown_table
from dsregress.report.problem_facts import ProblemFacts, problem_facts
from dsregress.report.problem_kinds import KINDS
from dsregress.report.problem_lines import ProblemLine
from dsregress.report.report_view import View, report_view
from dsregress.report.upstream_changes import UpstreamChange, is_of
from dsregress.run import pipeline, targets
from dsregress.store import Store
from dsregress.wording.addresses import thread_name
from dsregress.wording.quantities import listing
from tests.paths import ROOT
from tests.unit.advisories import index_page
from tests.unit.advisories.table import entries
from tests.unit.docs import reproducer_page
from tests.unit.docs.templates import page_of, rendered

RESULTS = ROOT / "results"
TEMPLATE = RESULTS / "findings.md.jinja"
PAGE = page_of(TEMPLATE)

#: Lines of evidence that a problem has on the page; the site has all.
_MOST_EVIDENCE = 2

#: What ends a message, which the line about the problem goes without.
_RANK = re.compile(r", rank \d+$")

#: Files of a change that are named; its pull request has all.
_MOST_FILES = 2

#: Factors that do not matter, which the page about scripts has all of.
_MOST_FACTORS = 8


class PublishedProblem:
    """What the template says of one problem, as Markdown."""

    def __init__(self, line: ProblemLine, facts: ProblemFacts) -> None:
        self._line = line
        self._facts = facts
        is_intended = facts.title is not None and facts.title.is_intended
        kind = ProblemKind.DIFFERENT if is_intended else line.kind
        self.section = KINDS[kind].section.capitalize()
        self.rank = min(one for one, words in KINDS.items() if words.section == KINDS[kind].section)  # of the section
        self.is_cost = line.kind.is_cost
        self.is_untestable = line.kind is ProblemKind.UNTESTABLE
        since, until = _with_neighbor(line.since), _with_neighbor(line.until)
        text, evidence, releases = line.text, line.evidence, line.releases
        own = facts.own_end
        if own is not None:
            releases = f"{line.since.partition(';')[0]} to {own.last}"
            others = (
                listing([f'"{one.title}"' for one in facts.overlaps]) or "another cause, which is not separated here"
            )
            until = (
                f"{own.last} by its script (not in {own.after}); its jobs go on to be wrong until {until}, by {others}"
            )
            if own.first is not None:
                text = f"{line.words.who}: {_RANK.sub('', own.first.message).removeprefix('the ')}."
                evidence = (own.first.message, *own.first.evidence)
        self.releases = markdown(releases)
        self.span = markdown(f"since {since}, until {until}{self._where_jobs_do_not_tell()}")
        self.sentences = markdown(f"{line.text} {line.consequence}".rstrip())
        named = f"{facts.known_as}." if facts.known_as else ""
        titled = [f"{facts.title.title}.", facts.title.what] if facts.title is not None else [named]
        self.what = markdown(" ".join(filter(None, (*titled, text))))
        self.evidence = tuple(markdown(text) for text in evidence[:_MOST_EVIDENCE])

    @property
    def advisory(self) -> str:
        """Links to its advisories, behind a comma; empty without one."""
        script, by_hand = self._facts.reproduction, Path(self._facts.by_hand).stem
        found = [
            entry.id
            for entry in entries()
            if (script is not None and script.name in (*entry.scripts, entry.rest_of)) or by_hand in entry.by_hand
        ]
        return "".join(f", [{name}](advisories/{name}.json)" for name in found)

    @property
    def conditions(self) -> str:
        found = [f"{label}: {text}" for label, text in self._facts.conditions(_MOST_FACTORS)]
        return markdown(". ".join(found)) or "not determined"

    @property
    def cause(self) -> str:
        """What brought it and what ended it, and what upstream knows."""
        changes = [("Introduced", self._facts.began), ("Ended", self._facts.ended)]
        parts = [_change(what, change, len(found) > 1) for what, found in changes for change in found]
        known = self._facts.upstream
        if known is not None:
            named = [
                *(f"reported, {_thread(address)}" for address in known.reported),
                *(f"introduced by {_thread(address)}" for address in known.introduced),
                *(f"a fix is {_thread(address)}" for address in known.fixed),
                *(f"related, {_thread(address)}" for address in known.related),
            ]
            parts.append(f"Upstream: {markdown(known.what)} ({', '.join(named)}; looked up {known.looked_up}).")
        else:
            parts.append("Upstream: not looked up or not found.")
        parts += [f"{markdown(site)}." for change in self._facts.began for site in change.sites[:1]]
        return " ".join(parts)

    @property
    def remedy(self) -> str:
        title, own = self._facts.title, self._facts.own_end
        is_intended = title is not None and title.is_intended
        parts = ["" if is_intended else self._line.consequence]
        if not is_intended and self._line.release_to_use:
            parts.append(self._run_in(self._line.release_to_use))
        if own is not None:
            parts.append(f"By its script {own.after} is right already; what its jobs show there is the other cause.")
        parts += [f"In {one.version} the script passes with {one.text}." for one in self._facts.remedies]
        if not any(parts) and (passing := self._passing()):
            parts.append(
                f"No release was found that is sound on all of its jobs; the script passes in {listing(passing)}."
            )
        return markdown(" ".join(filter(None, parts))) or "none is known"

    @property
    def _answers(self) -> dict[str, Verdict]:
        """Of the script, by release."""
        return self._facts.reproduction.answers if self._facts.reproduction is not None else {}

    def _passing(self) -> list[str]:
        """Releases in which the script passes, oldest first."""
        return sorted((one for one, answer in self._answers.items() if answer is Verdict.GOOD), key=Version)

    def _release(self, stack: str) -> str:
        """Of the script's package in a stack, by its id; empty without a script."""
        found = self._facts.reproduction
        named = re.search(rf"-{found.package}([^-/]+)", stack) if found is not None else None
        return named[1] if named is not None else ""

    def _run_in(self, stack: str) -> str:
        """Whether the script was run in the release to use."""
        if not self._answers:
            return ""
        answer = self._answers.get(self._release(stack))
        done = {Verdict.GOOD: "passes", Verdict.BAD: "does not pass"}
        return f"The script {done[answer]} there." if answer in done else "The script was not run there."

    def _where_jobs_do_not_tell(self) -> str:
        """Of releases between, in which the jobs end before they can be judged, what the script says."""
        first, *_, last = map(self._release, (self._line.having[0], *self._line.having))
        between = [
            one
            for one in map(self._release, self._line.unknown)
            if one and Version(first) < Version(one) < Version(last)
        ]
        if not between:
            return ""
        said = {
            done: [one for one in between if self._answers.get(one) is answer]
            for done, answer in (("shows it in", Verdict.BAD), ("passes in", Verdict.GOOD), ("was not run in", None))
        }
        parts = [f"{done} {', '.join(releases)}" for done, releases in said.items() if releases]
        return f"; where the jobs end before they can be judged, the script {' and '.join(parts)}"

    @property
    def confirmed(self) -> str:
        found = self._facts.reproduction
        if found is not None and found.confirmed:
            runs = "; ".join(f"{found.package} {run.version} `{run.line}`" for run in found.runs)
            further = "".join(f"; {', '.join(one.releases)} `{one.line}`" for one in found.further)
            yes = f"in part, as {self._facts.in_part}" if self._facts.in_part else "yes"
            return f"{yes}, by [{found.name}](reproducers/{found.name}.py): {runs}{further}"
        if self._facts.by_hand:
            name = Path(self._facts.by_hand).stem
            return (
                f"yes, by hand, by [{name}](reproducers/{self._facts.by_hand}): {markdown(self._facts.why_no_script)}"
            )
        return f"no: {markdown(self._facts.why_no_script or 'no script was written')}"


def _with_neighbor(text: str) -> str:
    """``0.16.0 (not in 0.15.4)``."""
    release, _, neighbor = text.partition("; ")
    return f"{release} ({neighbor})"


def _change(what: str, change: UpstreamChange, is_one_of_several: bool) -> str:
    between = f"{change.package} {change.before} and {change.after}"
    if not change.where:
        return f"{what} between {f'[{between}]({change.compare_url})' if change.compare_url else between}."
    place = f"[{markdown(change.where)}]({change.pull_url})" if change.pull_url else f"`{change.where}`"
    own = [file for file in change.files if is_of(change.package, file)]
    files = f" ({listing(own, _MOST_FILES)})" if own else ""
    on = f" on `{change.workload.removesuffix('/cpu')}`" if is_one_of_several else ""
    how = f"tried: {markdown(change.tried)}" if change.tried else f"found by bisection{on}"
    return f"{what} in {change.package} {change.after} by {place}{files}, {how}."


def _thread(address: str) -> str:
    return f"[{thread_name(address)}]({address})"


@functools.cache
def _compared(bundle: str, baseline: str) -> Comparison:
    settings = options.load_settings()
    store = Store(str(ROOT / bundle))
    package = targets.varied_package(settings)
    released = [name for name in sorted(store.stack_ids()) if "+g" not in name]  # no commits of a bisection
    chosen = stack_id(baseline, package, released, like=most_common(released, package))
    return pipeline.compare_stored([store], chosen, settings, pytest.fail, released)


@functools.cache
def _view(bundle: str, baseline: str) -> View:
    return report_view(report_context(_compared(bundle, baseline)))


def problems(bundle: str, baseline: str, scenario: str = "") -> list[PublishedProblem]:
    """All of a comparison, or those of one scenario."""
    facts = problem_facts(report_context(_compared(bundle, baseline), known=reproducer_page.known()))
    lines = _view(bundle, baseline).screen.problems
    own = [line for line in lines if scenario in ("", line.worst.scenario)]
    return [PublishedProblem(line, facts[line.worst.key]) for line in own]


def outcomes(bundle: str, baseline: str) -> str:
    """How many workloads of each release came to which outcome."""
    (table,) = _view(bundle, baseline).compatibility
    columns = ("DeepSpeed", *table.columns[1:])
    alike = [(fares, [row[0] for row in run]) for fares, run in itertools.groupby(table.rows, lambda row: row[1:])]
    rows = [(own[0] if len(own) == 1 else f"{own[0]} to {own[-1]}", *fares) for fares, own in alike]
    return "\n".join(markdown_table(columns, rows, numbers=range(1, len(columns))))


def unscripted() -> list[tuple[str, str]]:
    """Problems that have no findings of the harness, and why no script shows them."""
    known = [one for one in reproducer_page.known().without_script if one.shown_by is None]
    # Links lead from the folder of reproducers.
    return [(one.problem, re.sub(r"\]\((?!https?:|#)", "](reproducers/", one.reason)) for one in known]


def written(template: Path = TEMPLATE) -> str:
    functions = {"problems": problems, "outcomes": outcomes, "unscripted": unscripted, "of_kind": index_page.of_kind}
    return re.sub(r"\n{3,}", "\n\n", rendered(template, functions))
