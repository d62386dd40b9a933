"""What else is known of each problem: its conditions, its script, the change that brought it, what upstream knows.

Answers of `reproduce` and `bisect`, and tables written by hand, are joined with the problems of a comparison here and
nowhere else. An answer is about a problem if one of the problem's workloads is the answer's, or has all that the answer's
smallest cell has; one of its findings there is by the answer's metric; and it has the problem in the answer's bad release
and not in its good one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from harness.bisect.questions import Question
from harness.compare import Comparison, Problem, ProblemKind
from harness.compare.metrics import OUTCOME
from harness.compare.releases import ranges
from harness.model import Finding, Verdict, WorkloadParts, split_workload, variant_values
from harness.report.answer_matching import UNNAMED, answers_by, has_all, is_alike, meets, question_of
from harness.report.answers.stored import (
    StoredBisection,
    StoredRemedy,
    StoredReproduction,
)
from harness.report.known_answers import KnownAnswers, Title, TriedChange
from harness.report.upstream_changes import UpstreamChange, change_between, change_of, different, may_be
from harness.reproduce import upstream
from harness.reproduce.factors import BY_NAME, SIMPLEST_OF, among
from harness.reproduce.patterns import ProblemPattern
from harness.reproduce.upstream import UpstreamProblem
from harness.versions.releases import parsed_version
from harness.wording import addresses
from harness.wording.names import varied_axes
from harness.wording.quantities import listing

_T = TypeVar("_T")


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """Releases in which workloads that train wrong have all that another such problem needs: either may be what is seen."""

    title: str  #: of the other one
    releases: str


class OwnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Where a problem ended by its script, whose workloads go on to be wrong: by another cause, which they have as well."""

    last: str  #: the last release in which the script shows it
    after: str  #: the first one after that in which it passes
    first: Finding | None  #: the worst in the first release


class ProblemFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All of one problem. What is not known is empty or None."""

    reproduction: StoredReproduction | None = None
    remedies: tuple[StoredRemedy, ...] = ()  #: settings with which the script passed, and which no other problem has
    title: Title | None = None
    overlaps: tuple[Overlap, ...] = ()  #: with others of its kind
    why_no_script: str = ""
    by_hand: str = ""  #: the script that confirms it, written by hand: a file in the folder of reproducers
    known_as: str = ""  #: what that script shows, in words
    began: tuple[UpstreamChange, ...] = ()  #: several where workloads have it by different changes
    ended: tuple[UpstreamChange, ...] = ()
    upstream: UpstreamProblem | None = None
    own_end: OwnEnd | None = None  #: where it lies before that of the workloads' findings
    in_part: str = ""  #: why its script confirms a part of what is said; empty where it confirms all, or none does

    def conditions(self, most: int = 100) -> tuple[tuple[str, str], ...]:
        """Label and text, with at most so many factors that do not matter. Empty where no answer says them; of one that was
        reduced and no more, what it was reduced to."""
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
        """Whether a script shows it without the harness."""
        return self.reproduction is not None and self.reproduction.confirmed


def problem_facts(comparison: Comparison, known: KnownAnswers) -> dict[tuple[str, ...], ProblemFacts]:
    """Of each problem of the comparison, by the key of its worst finding."""
    joint = _Joint(comparison, known)
    return {problem.worst.key: joint.facts(problem) for problem in comparison.problems}


class _Joint:
    def __init__(self, comparison: Comparison, known: KnownAnswers) -> None:
        self._comparison = comparison
        self._known = known
        self._stacks = {stack.id: stack for stack in comparison.stacks}
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
        """Of a script that was run in releases of the problem up to one in which it passes. Counts of work come in steps, of
        which a script shows one."""
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
        """What ended the problem; not what ended another one that its workloads had until later."""
        found = self._changes(problem, script, Verdict.GOOD)
        if script is None or own is None:
            return found
        own_change = change_between(script.package, own.last, own.after)
        return tuple(one for one in found if may_be(own_change, one)) or (own_change,)

    def _in_part(self, problem: Problem, script: StoredReproduction) -> str:
        """Of a count of work, which each release may change: whether the script counts the same, in the release that brought
        it or ended it and its neighbour."""
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
        """By what was found in the first release that has it. What a release measured without it had by then is another."""
        versions = self._stacks[problem.before].versions if problem.before else {}

        def is_older(pattern: UpstreamProblem) -> bool:
            before, since = parsed_version(versions.get(pattern.package, "")), parsed_version(pattern.since)
            return before is not None and since is not None and before >= since

        return self._shown(_first(problem), [(one, one) for one in upstream.known() if not is_older(one)])

    def _reproduction(self, problem: Problem) -> StoredReproduction | None:
        """The confirmed one first; where none is about it, one whose title says that it shows such findings."""
        known = self._known.stored.reproductions
        found = [one for one in known if problem.worst.key in self._problems_of[one.name]]
        titles = [(one, self._known.titles.get(one.name)) for one in known]
        patterns = [(one, title.shown_by) for one, title in titles if title is not None and title.shown_by is not None]
        return min(found, key=lambda one: (not one.confirmed, one.name), default=self._shown(problem.worst, patterns))

    def _overlaps(self, problem: Problem, own: StoredReproduction | None) -> Iterator[Overlap]:
        """With those by another script, of which all of its workloads have the conditions. A crash says what it is, and
        memory adds up; what trains wrong is wrong by one cause or another."""
        values = [{**UNNAMED, **self._comparison.parameters[workload]} for workload in problem.affected]
        for one in self._comparison.problems:
            other = self._reproduction(one)
            title = self._known.titles.get(other.name) if other is not None else None
            shared = [stack for stack in problem.having if stack in one.having]
            if one is problem or other is own or title is None or not shared:
                continue
            if one.kind is problem.kind is ProblemKind.WRONG and all(self._needs_no_more(one, each) for each in values):
                releases = ranges(shared, self._comparison.stacks, self._comparison.names)
                yield Overlap(title=title.title, releases=releases)

    def _remedies(self, problem: Problem, found: StoredReproduction) -> Iterator[StoredRemedy]:
        """Of the settings with which the script passes, those that lead to no other grave problem in its releases."""
        for remedy in found.remedies:
            change = found.setting_of(remedy)
            if remedy.answer is Verdict.GOOD and change is not None and not self._is_spoiled(problem, *change):
                yield remedy

    def _is_spoiled(self, problem: Problem, name: str, value: Any) -> bool:
        """Whether what the problem's workloads become by a setting has another grave problem in one of its releases."""
        parameters = self._comparison.parameters
        changed = [{**UNNAMED, **parameters[own], name: value} for own in problem.affected]
        having = set(problem.having)
        others = [
            one
            for one in self._comparison.problems
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

    def _needs_no_more(self, problem: Problem, values: Mapping[str, Any]) -> bool:
        """Whether these parameters are all that a problem is known to need."""
        found = self._reproduction(problem)
        return (
            found is not None
            and bool(found.needs)
            and all(
                among(BY_NAME[one.factor].value_in(values), one.shown) for one in found.needs if one.factor in BY_NAME
            )
        )

    def _problems_shown_by(self, found: StoredReproduction) -> set[tuple[str, ...]]:
        """The problems that an answer is about, by the keys of their worst findings: those of its own cell; where no problem
        has that, those of workloads that have all of its smallest cell."""
        question = question_of(found.metric)
        if question is None:
            return set()
        ends = (found.package, found.bad, found.good)
        for workload in (found.workload, found.smallest):
            own = {one.worst.key for one in self._comparison.problems if self._has(one, workload, question, ends)}
            if own:
                return own
        return set()

    def _shown(self, found: Finding, patterns: Sequence[tuple[_T, ProblemPattern]]) -> _T | None:
        """What belongs to the first of the patterns that a finding shows."""
        question = Question(found.metric, found.phase, str(found.value) if found.metric == OUTCOME.name else "")
        parameters = {**UNNAMED, **self._comparison.parameters[found.workload]}
        versions = self._stacks[found.stack].versions
        for one, pattern in patterns:
            version = versions.get(pattern.package)
            if version is not None and pattern.is_shown_by(pattern.package, version, question, parameters):
                return one
        return None

    def _changes(self, problem: Problem, script: StoredReproduction | None, to: Verdict) -> tuple[UpstreamChange, ...]:
        """As bisections found them, or as they were tried with the script; else between which measured releases it lies,
        where they differ in one package. What goes wrong now and then may do so in others that ran once."""
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
        """Whether the problem is what the question about this workload finds in the one release of a package (``ends``: the
        package, the bad release and the good one) and not in the other."""
        package, bad, good = ends
        return any(
            self._is_of(workload, own)
            and any(one.workload == own and answers_by(one, question) for one in (*problem.findings, *problem.related))
            and self._may_have(problem, own, package, bad)
            and not self._must_have(problem, own, package, good)
            for own in problem.affected
        )

    def _may_have(self, problem: Problem, own: str, package: str, release: str) -> bool:
        """Of a release that was not measured on this workload, whether one of its neighbors has it."""
        return any(self._around(problem, own, package, release))

    def _must_have(self, problem: Problem, own: str, package: str, release: str) -> bool:
        """Of a release that was not measured on this workload, whether all of its neighbors have it."""
        return all(self._around(problem, own, package, release))

    def _around(self, problem: Problem, own: str, package: str, release: str) -> list[bool]:
        """Whether a release has the problem on a workload; where it was not measured, whether the nearest older one and the
        nearest newer one have it."""
        having = set(problem.affected[own])
        measured: dict[str, bool] = {}
        for stack in self._comparison.cells.stacks_of(own):
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
        """Whether a workload has all that the workload of an answer names: of a simplest scenario whatever is not
        simplest, and the ZeRO stage, as each is another code; of others the variant, which names all that the workload's
        does. The device mode does not count."""
        parts, named = split_workload(own), variant_values(answered.variant)
        if answered == parts:
            return True
        if answered.scenario in SIMPLEST_OF.values():
            return has_all(self._comparison.parameters[own], answered.variant)
        if answered.scenario != parts.scenario or not variant_values(parts.variant).items() <= named.items():
            return False
        values = {**UNNAMED, **self._comparison.parameters[own]}
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
    """The worst one in the first release that has it."""
    return next((one for one in problem.findings if one.stack == problem.since), problem.worst)
