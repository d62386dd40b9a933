"""The advisories that know a measured problem: by its metric, the facts of the job, and its releases. Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import msgspec

from dsregress.advisories.advisory import Advisory, MeasuredSymptom, Remedy, Ruling
from dsregress.advisories.effects import decides
from dsregress.advisories.job_facts import Facts
from dsregress.advisories.matching import KnownJob, Match, Matched, match_advisory
from dsregress.advisories.measured_jobs import as_readers, is_program, job_facts, program_facts
from dsregress.advisories.raised_errors import is_told
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.upgrading import UpgradeAnswer, Verdict, judge_release
from dsregress.compare import Comparison, Problem, ProblemKind
from dsregress.compare.finding_groups import kind_of
from dsregress.compare.metrics import DEVICE_EXCESS, DEVICE_RETAINED, OUTCOME
from dsregress.model import Finding, Passed
from dsregress.probe.scenario import PACKAGES
from dsregress.versions.releases import parsed_version
from dsregress.wording.names import varied_axes

#: Metrics of one cause: what is held, and what is held beyond ZeRO's need.
_SAME = {DEVICE_EXCESS.name: DEVICE_RETAINED.name}

#: The package that is judged where several vary, or none.
_PACKAGE = "deepspeed"


class KnownProblems:
    """The advisories that know what a comparison has found."""

    def __init__(self, comparison: Comparison) -> None:
        self._stacks = dict(zip(comparison.names, comparison.stacks, strict=True))  # by id, which takes a while to make
        self._baseline = self._stacks.get(comparison.baseline)
        axes = varied_axes(comparison.stacks)
        self._package = axes[0] if len(axes) == 1 else _PACKAGE
        self._parameters = comparison.parameters
        self._cells = comparison.cells
        self._baseline_id = comparison.baseline
        self._facts: dict[tuple[str, str], Facts] = {}  #: by stack and workload
        self._judged: dict[tuple[str, str], UpgradeAnswer | None] = {}  #: by stack and workload

    def of_problem(self, problem: Problem) -> tuple[Advisory, ...]:
        """Return the advisories that know the worst finding of a problem; empty if none does."""
        return self.of_finding(problem.worst)

    def of_finding(self, found: Finding) -> tuple[Advisory, ...]:
        """Return the advisories that know a finding."""
        error = found.message if found.metric == OUTCOME.name else ""
        known = self._known(found.stack, found.workload, found.metric, found.phase, error)
        return tuple(one for one in known if found.kind != "regression" or self._may_differ_by(one, found.stack))

    def _may_differ_by(self, advisory: Advisory, stack: str) -> bool:
        """Return True if the stack has another release than the baseline of a package that the advisory is about. What both
        have is no difference between them."""
        if self._baseline is None:
            return True
        own, before = self._stacks[stack].versions, self._baseline.versions
        packages = {one.package for one in advisory.ranges} | {one.package for one in advisory.partners}
        return any(own.get(package) != before.get(package) for package in packages)

    def speaks_against(self, found: Finding) -> bool:
        """Return True for a finding that an advisory knows as a fault, and for one that no advisory knows."""
        known = self.of_finding(found)
        return not known or any(decides(one) and one.ruling is Ruling.FAULT for one in known)

    def is_known_change(self, found: Finding) -> bool:
        """Return True for wrong values of which every advisory that knows them says that they are right."""
        if kind_of(found) is not ProblemKind.WRONG:
            return False
        known = self.of_finding(found)
        return bool(known) and all(one.ruling is not Ruling.FAULT for one in known)

    def ruled(self, problem: Problem) -> Problem:
        """Return a problem as the advisories rule that know it: another training is not wrong if it is right by all of them,
        and a default explains it if that is what they say to set."""
        if problem.kind is not ProblemKind.WRONG or not self.is_known_change(problem.worst):
            return problem
        to_set = {remedy.fact for one in self.of_problem(problem) for remedy in one.remedies if remedy.fact}
        setting = next((one for one in problem.moved if one.key.rpartition(".")[2] in to_set), None)
        return msgspec.structs.replace(problem, kind=ProblemKind.DIFFERENT, setting=setting)

    def judged_release(self, stack: str, workload: str) -> UpgradeAnswer | None:
        """Return the verdict on a stack's release for the workload's job, as it is a reader's; None if nothing is known of
        the job."""
        if (stack, workload) not in self._judged:
            facts = self.facts_of_reader(stack, workload)
            job = known_job(self._versions(stack, workload), facts) if facts and stack in self._stacks else None
            self._judged[stack, workload] = judge_release(read_advisories(), job, self._package) if job else None
        return self._judged[stack, workload]

    def may_concern_reader(self, stack: str, workload: str, advisory: Advisory) -> bool:
        """Return True if the reader's job, which runs on GPUs, has an advisory that the measured one has, or may have it by
        what was not stated."""
        job = known_job(self._versions(stack, workload), self.facts_of_reader(stack, workload))
        return match_advisory(advisory, job).match in (Match.CONCERNED, Match.DEPENDS)

    def ending_settings(self, problem: Problem) -> tuple[Remedy, ...]:
        """Return what ends a problem in the release that has it: the remedies that `audit` makes a condition; empty if not
        all advisories that know it have one."""
        known = [one for one in self.of_problem(problem) if decides(one)]
        answer = self.judged_release(problem.worst.stack, problem.worst.workload) if known else None
        if answer is None or answer.verdict is Verdict.NO:
            return ()
        ended_by = {one.matched.advisory.id: one.remedies for one in answer.conditions}
        if not all(ended_by.get(one.id) for one in known):
            return ()
        return tuple(dict.fromkeys(remedy for one in known for remedy in ended_by[one.id]))

    def remedies_within(self, problem: Problem) -> tuple[Remedy, ...]:
        """Return the remedies of the first advisory that knows a problem, without releases of packages that the stack which
        has it lacks: an error may be raised by a program of one's own that calls what another package does."""
        first = next(iter(self.of_problem(problem)), None)
        has = self._versions(problem.worst.stack, problem.worst.workload)
        return tuple(one for one in first.remedies if not one.package or one.package in has) if first else ()

    def is_ruled_out(self, stack: str, workload: str) -> bool:
        """Return True if an advisory is against a stack's release for the workload's job."""
        answer = self.judged_release(stack, workload)
        return answer is not None and answer.verdict is Verdict.NO

    def knows_job(self, workload: str) -> bool:
        """Return True if something is known of the workload's job, as it is a reader's."""
        return bool(self.facts_of_reader(self._baseline_id, workload))

    def facts_of_reader(self, stack: str, workload: str) -> Facts:
        """Return the facts of the workload's job in a stack, as it is a reader's; empty if nothing is known of it."""
        return as_readers(self._facts_of(stack, workload))

    def _facts_of(self, stack: str, workload: str) -> Facts:
        """Return the facts of a workload in a stack: by its parameters, or by what was in force when its program ran there,
        or in another stack if it did not run to the end there."""
        if (stack, workload) not in self._facts:
            parameters = self._parameters.get(workload, {})
            is_seen = is_program(workload, parameters)
            found = self._seen(stack, workload) if is_seen else job_facts(workload, parameters)
            self._facts[stack, workload] = found
        return self._facts[stack, workload]

    def _seen(self, stack: str, workload: str) -> Facts:
        parameters = self._parameters[workload]
        for each in dict.fromkeys((stack, self._baseline_id, *self._cells.stacks_of(workload))):
            cell = self._cells.of(each, workload)
            if cell is None or not isinstance(cell.result.outcome, Passed):
                continue
            if (detail := self._cells.detail_of(cell)) is not None:
                names = {name for _, numerics in cell.trained for name in numerics.trained}
                return program_facts(workload, parameters, names, detail)
        return program_facts(workload, parameters)

    def of_outcome(self, stack: str, workload: str, error: str) -> tuple[Advisory, ...]:
        """Return the advisories that know the error by which a run ended."""
        return self._known(stack, workload, OUTCOME.name, "", error)

    def _known(self, stack: str, workload: str, metric: str, phase: str, error: str) -> tuple[Advisory, ...]:
        facts = self._facts_of(stack, workload)
        if stack not in self._stacks:
            return ()
        versions = self._versions(stack, workload)
        norm = functools.partial(self._greatest_norm, stack, workload)
        shown = (
            advisories_of_symptom(metric=metric, phase=phase, error=error, versions=versions, facts=facts, norm=norm)
            if facts
            else ()
        )
        return shown or (advisories_of_error(error, versions, facts) if error else ())

    def _greatest_norm(self, stack: str, workload: str) -> float | None:
        """Return the greatest gradient norm of a run; None if none is known."""
        cell = self._cells.of(stack, workload)
        if cell is None or not isinstance(cell.result.outcome, Passed):
            return None
        norms = [norm for _, numerics in cell.trained for norm in numerics.gradient_norms if norm is not None]
        return max(norms, default=None)

    def _versions(self, stack: str, workload: str) -> dict[str, str]:
        """Return the releases of a stack, and those that the workload brings, as TRL."""
        brought = self._parameters.get(workload, {}).get(PACKAGES) or {}
        return {**brought, **self._stacks[stack].versions}


def advisories_of_symptom(
    *,
    metric: str,
    phase: str,
    error: str,
    versions: Mapping[str, str],
    facts: Facts,
    norm: Callable[[], float | None] = lambda: None,
) -> tuple[Advisory, ...]:
    """Return the advisories that a job with these facts is known to be concerned by, and that show like this. ``norm``
    returns its greatest gradient norm, if one is known."""
    job = known_job(versions, facts)
    return tuple(
        one
        for one in read_advisories()
        if not one.withdrawn
        and any(_is_shown(each, metric, phase, error, facts) and _has_norm(each, norm) for each in one.shown_by)
        and _is_concerned(match_advisory(one, job), facts)
    )


def _is_concerned(matched: Matched, facts: Facts) -> bool:
    """Return True if an advisory concerns a job that shows it, also if of a fact only some values are left, as of the kind
    of checkpointing: what was measured decides."""
    is_narrowed = matched.match is Match.DEPENDS and not matched.open_packages
    return matched.match is Match.CONCERNED or (is_narrowed and all(one.fact in facts for one in matched.open))


def advisories_of_error(error: str, versions: Mapping[str, str], facts: Facts) -> tuple[Advisory, ...]:
    """Return the advisories whose error a run ended by, and that nothing known of its job rules out: an error that only one
    fault raises shows it, whatever of the job is not known."""
    job = known_job(versions, facts)
    return tuple(
        one
        for one in read_advisories()
        if not one.withdrawn
        and any(is_told(error, each) for each in one.raises)
        and match_advisory(one, job).match in (Match.CONCERNED, Match.DEPENDS)
    )


def known_job(versions: Mapping[str, str], facts: Mapping[str, object]) -> KnownJob:
    """Return a job without the packages that are no releases."""
    return KnownJob(
        versions={name: one for name, one in versions.items() if parsed_version(one) is not None}, facts=facts
    )


def _has_norm(symptom: MeasuredSymptom, norm: Callable[[], float | None]) -> bool:
    if symptom.norm_above is None:
        return True
    found = norm()
    return found is None or found > symptom.norm_above


def _is_shown(symptom: MeasuredSymptom, metric: str, phase: str, error: str, facts: Facts) -> bool:
    if any(facts.get(fact) not in values for fact, values in symptom.where.items()):
        return False
    if _SAME.get(metric, metric) not in {_SAME.get(one, one) for one in symptom.metrics}:
        return False
    if metric == OUTCOME.name:
        return symptom.error in error
    return symptom.phase in ("", phase)
