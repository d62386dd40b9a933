"""``docs/findings.md``, written from published results: a template holds the words, results and answers hold the figures.

In the template ``problems(BUNDLE, ...)`` are the problems of a comparison as the site has them, each a `PublishedProblem`,
and ``outcomes(BUNDLE, ...)`` is its table of releases by outcome.
"""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path

import pytest

from harness.cli import options
from harness.cli.stored import most_common, stack_id
from harness.compare import Comparison, ProblemKind
from harness.report.plain import markdown, markdown_table
from harness.report.problem_facts import ProblemFacts, UpstreamChange, problem_facts
from harness.report.problems import TITLES, ProblemLine
from harness.report.view import View, view
from harness.run import pipeline, targets
from harness.store import Store
from harness.wording.addresses import thread_name
from harness.wording.quantities import listing
from tests.paths import ROOT
from tests.unit.docs import reproducer_page
from tests.unit.docs.templates import page_of, rendered

DOCS = ROOT / "docs"
TEMPLATE = DOCS / "findings.md.jinja"
PAGE = page_of(TEMPLATE)

#: Lines of evidence that a problem has on the page; the site has all.
_MOST_EVIDENCE = 2

#: Files of a change that are named; its pull request has all.
_MOST_FILES = 2

#: Factors that do not matter, which the page about scripts has all of.
_MOST_FACTORS = 8


class PublishedProblem:
    """What the template says of one problem, as Markdown."""

    def __init__(self, line: ProblemLine, facts: ProblemFacts) -> None:
        self._line = line
        self._facts = facts
        self.number = line.number
        self.section = TITLES[line.kind].capitalize()
        self.rank = min(kind for kind, title in TITLES.items() if title == TITLES[line.kind])  # of the section
        self.is_cost = line.kind.is_cost
        self.is_untestable = line.kind is ProblemKind.UNTESTABLE
        self.releases = markdown(line.releases)
        self.span = markdown(f"since {_with_neighbor(line.since)}, until {_with_neighbor(line.until)}")
        self.text, self.sentences = markdown(line.text), markdown(line.sentences)
        titled = [f"{facts.title.title}.", facts.title.what] if facts.title is not None else []
        self.what = markdown(" ".join(filter(None, (*titled, line.text))))
        self.evidence = tuple(markdown(text) for text in line.evidence[:_MOST_EVIDENCE])

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
        parts = [self._line.consequence]
        parts += [f"In {one.version} the script passes with {one.text}." for one in self._facts.remedies]
        return markdown(" ".join(filter(None, parts))) or "none is known"

    @property
    def confirmed(self) -> str:
        found = self._facts.reproduction
        if found is not None and found.confirmed:
            runs = "; ".join(f"{found.package} {run.version} `{run.line}`" for run in found.runs[:2])
            return f"yes, by [{found.name}](reproducers/{found.name}.py): {runs}"
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
    own = [file for file in change.files if _is_of(change.package, file)]
    files = f" ({listing(own, _MOST_FILES)})" if own else ""
    on = f" on `{change.workload.removesuffix('/cpu')}`" if is_one_of_several else ""
    return f"{what} in {change.package} {change.after} by {place}{files}, found by bisection{on}."


def _is_of(package: str, changed: str) -> bool:
    """Whether a changed file (``+12 -3 FILE``) is of the package itself, and not of its tests or documentation."""
    return changed.rpartition(" ")[2].removeprefix("src/").startswith(f"{package}/")


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
    return view(_compared(bundle, baseline))


def problems(bundle: str, baseline: str, scenario: str = "") -> list[PublishedProblem]:
    """All of a comparison, or those of one scenario."""
    facts = problem_facts(_compared(bundle, baseline), reproducer_page.known())
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
    functions = {"problems": problems, "outcomes": outcomes, "unscripted": unscripted}
    return re.sub(r"\n{3,}", "\n\n", rendered(template, functions))
