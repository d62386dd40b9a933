"""Further facts about each problem: its conditions, its script, the change that introduced it, and its upstream reports.

Answers of `reproduce` and `bisect`, and tables written by hand, are joined with the problems of a comparison only here. An
answer is about a problem if one of the problem's workloads is the answer's, or has all that the answer's smallest cell has;
one of its findings there is by the answer's metric; and it has the problem in the answer's bad release and not in its good
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from dsregress.advisories.measured_jobs import UNNAMED
from dsregress.bisect.questions import Question
from dsregress.compare import Problem, ProblemKind
from dsregress.compare.metrics import OUTCOME
from dsregress.compare.release_ranges import ranges
from dsregress.model import Finding, Verdict, WorkloadParts, split_workload, variant_values
from dsregress.probe.factor import among
from dsregress.probe.factors import BY_NAME
from dsregress.report.answer_matching import answers_by, has_all, is_alike, meets, question_of
from dsregress.report.context import ReportContext
from dsregress.report.known_answers import Title, TriedChange
from dsregress.report.stored_answers import (
    StoredBisection,
    StoredRemedy,
    StoredReproduction,
)
from dsregress.report.upstream_changes import UpstreamChange, change_between, change_of, different, may_be
from dsregress.reproduce import upstream
from dsregress.reproduce.factors import SIMPLEST_OF
from dsregress.reproduce.patterns import ProblemPattern
from dsregress.reproduce.upstream import UpstreamProblem
from dsregress.versions.releases import parsed_version
from dsregress.wording import addresses
from dsregress.wording.names import varied_axes
from dsregress.wording.quantities import listing

_T = TypeVar("_T")


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """Releases in which workloads that train wrong also meet the conditions of another such problem, so that either may be
    the cause."""

    title: str  #: of the other one
    releases: str


class OwnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a problem by its script, if its workloads are wrong in later releases too: by another cause."""

    last: str  #: the last release in which the script shows it
    after: str  #: the first one after that in which it passes
    first: Finding | None  #: the worst in the first release


class ProblemFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one problem. Unknown ones are empty or None."""

    reproduction: StoredReproduction | None = None
    remedies: tuple[StoredRemedy, ...] = ()  #: settings with which the script passes, and that lead to no other problem
    title: Title | None = None
    overlaps: tuple[Overlap, ...] = ()  #: with others of its kind
    why_no_script: str = ""
    by_hand: str = ""  #: the script that confirms it, written by hand: a file in the folder of reproducers
    known_as: str = ""  #: what that script shows, in words
    began: tuple[UpstreamChange, ...] = ()  #: several if workloads have it by different changes
    ended: tuple[UpstreamChange, ...] = ()
    upstream: UpstreamProblem | None = None
    own_end: OwnEnd | None = None  #: if it is before the end of the workloads' findings
    in_part: str = ""  #: why its script confirms only a part of it; empty if it confirms all, or no script does

    def conditions(self, most: int = 100) -> tuple[tuple[str, str], ...]:
        """Return label and text of each condition, with at most ``most`` factors that do not matter; without an answer, only
        the overlaps. If an answer has no conditions, return what the smallest cell was reduced to."""
        found = self.reproduction
        named: list[tuple[str, str]] = []
        if found is not None and (found.needed or found.does_not_matter):
            named += [
                ("needs", "; ".join(found.needed)),
                ("seen with", "; ".join(found.seen_with)),
                ("does not matter", listing(found.does_not_matter, most)),
                ("not known", "; ".join(found.open)),
            ]
        elif found is not None and found.reduced_to:
            named.append(("reduced to", f"{'; '.join(found.reduced_to)}. What else does not matter was not tried"))
        named += [(f"in {one.releases} also", f"all that another problem needs: {one.title}") for one in self.overlaps]
        return tuple((label, text) for label, text in named if text)

    @property
    def is_confirmed(self) -> bool:
        """Return True if a script shows the problem without the harness."""
        return self.reproduction is not None and self.reproduction.confirmed


def problem_facts(context: ReportContext) -> dict[tuple[str, ...], ProblemFacts]:
    """Return the facts about each problem of the comparison, by the key of its worst finding."""
    joint = _Joint(context)
    return {problem.worst.key: joint.facts(problem) for problem in context.comparison.problems}


class _Joint:
    def __init__(self, context: ReportContext) -> None:
        self._context = context
        self._known = known = context.known
        self._stacks = context.stacks
        self._problems_of = {one.name: self._problems_shown_by(one) for one in known.stored.reproductions}

    def facts(self, problem: Problem) -> ProblemFacts:
        reproduction = self._reproduction(problem)
        has_script = reproduction is not None and reproduction.confirmed
        why_not = "" if reproduction is None else reproduction.why_not
        patterns = [(one, one.shown_by) for one in self._known.without_script if one.shown_by is not None]
        reason = self._shown(problem.worst, patterns)
        by_hand = reason if not has_script and reason is not None and reason.by_hand else None
        own_end = self._own_end(problem, reproduction) if reproduction is not None else None
        return ProblemFacts(
            reproduction=reproduction,
            remedies=tuple(self._remedies(problem, reproduction)) if reproduction is not None else (),
            title=self._known.titles.get(reproduction.name) if reproduction is not None else None,
            overlaps=tuple(self._overlaps(problem, reproduction)),
            why_no_script="" if has_script else reason.reason if reason is not None else why_not,
            by_hand=f"by_hand/{by_hand.by_hand}" if by_hand is not None else "",
            known_as=by_hand.problem if by_hand is not None else "",
            began=self._changes(problem, reproduction, Verdict.BAD),
            ended=self._ended(problem, reproduction, own_end),
            upstream=self._upstream(problem),
            own_end=own_end,
            in_part=self._in_part(problem, reproduction) if reproduction is not None and has_script else "",
        )

    def _own_end(self, problem: Problem, script: StoredReproduction) -> OwnEnd | None:
        """Return the end of a problem by a script: the release after the last one in which it shows the problem. None unless
        workloads have the problem in that release or a later one; also None for intermittent problems and for costs, since
        counts of work change in steps, and a script shows only one."""
        if problem.kind.is_cost or problem.worst.intermittent:
            return None
        order = sorted((at, one) for one in script.answers if (at := parsed_version(one)) is not None)
        having = {
            stack: parsed_version(self._stacks[stack].versions.get(script.package, "")) for stack in problem.having
        }
        last = max((at for at, one in order if script.answers[one] is Verdict.BAD), default=None)
        after = next((at for at, _ in order if last is not None and at > last), None)
        if last is None or after is None or not any(at is not None and at >= after for at in having.values()):
            return None
        names = dict(order)
        return OwnEnd(last=names[last], after=names[after], first=_first(problem))

    def _ended(
        self, problem: Problem, script: StoredReproduction | None, own: OwnEnd | None
    ) -> tuple[UpstreamChange, ...]:
        """Return the changes that ended the problem, without those that ended another one that its workloads had longer."""
        found = self._changes(problem, script, Verdict.GOOD)
        if script is None or own is None:
            return found
        own_change = change_between(script.package, own.last, own.after)
        return tuple(one for one in found if may_be(own_change, one)) or (own_change,)

    def _in_part(self, problem: Problem, script: StoredReproduction) -> str:
        """Return why the script confirms only a part of a cost: it measures another metric, or it compares other releases
        than the one that introduced or ended the problem and its neighbor. Each release may change a count of work."""
        if not problem.kind.is_cost:
            return ""
        newest = next((one for one in problem.findings if one.stack == problem.until), problem.worst)
        question = question_of(script.metric)
        if question is None or not answers_by(newest, question):
            return f"the script measures {script.metric}"

        def answer(stack: str) -> Verdict | None:
            return script.answers.get(self._stacks[stack].versions.get(script.package, "")) if stack else None

        ends = ((problem.since, problem.before), (problem.until, problem.after))
        if any((answer(has), answer(has_not)) == (Verdict.BAD, Verdict.GOOD) for has, has_not in ends):
            return ""
        return f"the script compares {script.bad} with {script.good}"

    def _upstream(self, problem: Problem) -> UpstreamProblem | None:
        """Return the upstream problem by the finding in the first release that has it. An upstream problem that a release
        measured without it already had is a different one."""
        versions = self._stacks[problem.before].versions if problem.before else {}

        def is_older(pattern: UpstreamProblem) -> bool:
            before, since = parsed_version(versions.get(pattern.package, "")), parsed_version(pattern.since)
            return before is not None and since is not None and before >= since

        return self._shown(_first(problem), [(one, one) for one in upstream.known() if not is_older(one)])

    def _reproduction(self, problem: Problem) -> StoredReproduction | None:
        """Return the answer about a problem, a confirmed one if possible; if there is none, one whose title says that it
        shows such findings."""
        known = self._known.stored.reproductions
        found = [one for one in known if problem.worst.key in self._problems_of[one.name]]
        titles = [(one, self._known.titles.get(one.name)) for one in known]
        patterns = [(one, title.shown_by) for one, title in titles if title is not None and title.shown_by is not None]
        return min(found, key=lambda one: (not one.confirmed, one.name), default=self._shown(problem.worst, patterns))

    def _overlaps(self, problem: Problem, own: StoredReproduction | None) -> Iterator[Overlap]:
        """Yield the overlaps with problems of other scripts whose conditions all of its workloads meet. Only problems that
        train wrong overlap: a crash names its cause, and memory adds up."""
        values = [{**UNNAMED, **self._context.comparison.parameters[workload]} for workload in problem.affected]
        for one in self._context.comparison.problems:
            other = self._reproduction(one)
            title = self._known.titles.get(other.name) if other is not None else None
            shared = [stack for stack in problem.having if stack in one.having]
            if one is problem or other is own or title is None or not shared:
                continue
            if one.kind is problem.kind is ProblemKind.WRONG and all(self._needs_no_more(one, each) for each in values):
                releases = ranges(shared, self._context.comparison.stacks, self._context.comparison.names)
                yield Overlap(title=title.title, releases=releases)

    def _remedies(self, problem: Problem, found: StoredReproduction) -> Iterator[StoredRemedy]:
        """Yield the settings with which the script passes, but none that leads to another grave problem in its releases."""
        for remedy in found.remedies:
            change = found.setting_of(remedy)
            if remedy.answer is Verdict.GOOD and change is not None and not self._is_spoiled(problem, *change):
                yield remedy

    def _is_spoiled(self, problem: Problem, name: str, value: object) -> bool:
        """Return True if a setting gives one of the problem's workloads another grave problem in one of its releases."""
        parameters = self._context.comparison.parameters
        changed = [{**UNNAMED, **parameters[own], name: value} for own in problem.affected]
        having = set(problem.having)
        others = [
            one
            for one in self._context.comparison.problems
            if one is not problem and one.kind <= ProblemKind.OUT_OF_MEMORY and not having.isdisjoint(one.having)
        ]
        return any(
            self._needs_no_more(one, values)
            or any(
                not having.isdisjoint(stacks) and is_alike({**UNNAMED, **parameters[own]}, values)
                for own, stacks in one.affected.items()
            )
            for one in others
            for values in changed
        )

    def _needs_no_more(self, problem: Problem, values: Mapping[str, object]) -> bool:
        """Return True if these parameters meet all known conditions of a problem."""
        found = self._reproduction(problem)
        return (
            found is not None
            and bool(found.needs)
            and all(
                among(BY_NAME[one.factor].value_in(values), one.shown) for one in found.needs if one.factor in BY_NAME
            )
        )

    def _problems_shown_by(self, found: StoredReproduction) -> set[tuple[str, ...]]:
        """Return the keys of the worst findings of the problems that an answer is about: those of its own cell, or, if no
        problem has that, those of workloads that have all that its smallest cell has."""
        question = question_of(found.metric)
        if question is None:
            return set()
        ends = (found.package, found.bad, found.good)
        for workload in (found.workload, found.smallest):
            own = {
                one.worst.key for one in self._context.comparison.problems if self._has(one, workload, question, ends)
            }
            if own:
                return own
        return set()

    def _shown(self, found: Finding, patterns: Sequence[tuple[_T, ProblemPattern]]) -> _T | None:
        """Return the value of the first pattern that a finding matches; None if it matches none."""
        question = Question(found.metric, found.phase, str(found.value) if found.metric == OUTCOME.name else "")
        parameters = {**UNNAMED, **self._context.comparison.parameters[found.workload]}
        versions = self._stacks[found.stack].versions
        for one, pattern in patterns:
            version = versions.get(pattern.package)
            if version is not None and pattern.is_shown_by(pattern.package, version, question, parameters):
                return one
        return None

    def _changes(self, problem: Problem, script: StoredReproduction | None, to: Verdict) -> tuple[UpstreamChange, ...]:
        """Return the changes that bisections found, or that were tried with the script. If there are none, return the change
        between the two measured releases if they differ in one package; not for an intermittent problem, which releases
        that ran once may have too."""
        found = [self._bisected(problem, one, to) for one in self._known.stored.bisections]
        known = [one for one in found if one is not None]
        title = self._known.titles.get(script.name) if script is not None else None
        if script is not None and title is not None:
            known += [_tried(script, one) for one in title.changes if script.answers.get(one.after) is to]
        if known:
            return different(known)
        first, second = (problem.before, problem.since) if to is Verdict.BAD else (problem.until, problem.after)
        if not first or not second or problem.worst.intermittent:
            return ()
        axes = varied_axes([self._stacks[first], self._stacks[second]])
        if len(axes) != 1:
            return ()
        before, after = (self._stacks[stack].versions.get(axes[0], "") for stack in (first, second))
        return (change_between(axes[0], before, after),) if before and after else ()

    def _bisected(self, problem: Problem, bisection: StoredBisection, to: Verdict) -> UpstreamChange | None:
        releases = next((course for course in bisection.courses if course.kind == "releases"), None)
        if releases is None or releases.to is not to or releases.found is None:
            return None
        question = question_of(releases.metric)
        before, after = releases.found.before, releases.found.after
        bad, good = (after, before) if to is Verdict.BAD else (before, after)
        workload = split_workload(bisection.workload)
        if question is None or not self._has(problem, workload, question, (releases.package, bad, good)):
            return None
        return change_of(bisection, releases, releases.found)

    def _has(self, problem: Problem, workload: WorkloadParts, question: Question, ends: tuple[str, str, str]) -> bool:
        """Return True if a question about this workload finds the problem in the bad release of a package and not in the
        good one. ``ends``: the package, the bad release and the good one."""
        package, bad, good = ends
        return any(
            self._is_of(workload, own)
            and any(one.workload == own and answers_by(one, question) for one in (*problem.findings, *problem.related))
            and self._may_have(problem, own, package, bad)
            and not self._must_have(problem, own, package, good)
            for own in problem.affected
        )

    def _may_have(self, problem: Problem, own: str, package: str, release: str) -> bool:
        """Return True if a release has the problem on a workload or, if it was not measured, one of its neighbors has."""
        return any(self._around(problem, own, package, release))

    def _must_have(self, problem: Problem, own: str, package: str, release: str) -> bool:
        """Return True if a release has the problem on a workload or, if it was not measured, all of its neighbors have."""
        return all(self._around(problem, own, package, release))

    def _around(self, problem: Problem, own: str, package: str, release: str) -> list[bool]:
        """Return, in a list, whether a release has the problem on a workload; if it was not measured, whether the nearest
        older release and the nearest newer one have it, False for one that does not exist."""
        having = set(problem.affected[own])
        measured: dict[str, bool] = {}
        for stack in self._context.comparison.cells.stacks_of(own):
            own_release = self._stacks[stack].versions.get(package, "")
            measured[own_release] = measured.get(own_release, False) or stack in having
        if release in measured:
            return [measured[release]]
        at = parsed_version(release)
        order = sorted((version, has) for one, has in measured.items() if (version := parsed_version(one)) is not None)
        older = [has for version, has in order if at is not None and version < at]
        newer = [has for version, has in order if at is not None and version > at]
        return [*(older[-1:] or [False]), *(newer[:1] or [False])]

    def _is_of(self, answered: WorkloadParts, own: str) -> bool:
        """Return True if a workload has all that the workload of an answer names: for a simplest scenario, every changed
        value and the ZeRO stage, because each stage is different code; for another scenario, the variant, which names all
        that the workload's does. The device mode does not count."""
        parts, named = split_workload(own), variant_values(answered.variant)
        if answered == parts:
            return True
        if answered.scenario in SIMPLEST_OF.values():
            return has_all(self._context.comparison.parameters[own], answered.variant)
        if answered.scenario != parts.scenario or not variant_values(parts.variant).items() <= named.items():
            return False
        values = {**UNNAMED, **self._context.comparison.parameters[own]}
        return all(meets(values, name, text) for name, text in named.items())


def _tried(script: StoredReproduction, change: TriedChange) -> UpstreamChange:
    return change_between(
        script.package,
        change.before,
        change.after,
        where=change.subject,
        pull_url=addresses.pull_url(script.package, change.subject),
        files=change.files,
        tried=change.tried,
    )


def _first(problem: Problem) -> Finding:
    """Return the worst finding in the first release that has the problem."""
    return next((one for one in problem.findings if one.stack == problem.since), problem.worst)
