"""Problems: findings with one cause, the workloads that have it, and the releases from the first to the last. Pure.

Two episodes (`dsregress.compare.episodes`) have one cause

- if the same thing is worse (the same failure, or the same family of metrics) in the same releases, and neither has a
  release that the other is known to be free of. A failure may move to another place in an adjacent release. Findings of
  the numerics oracle share a cause only if their workloads share parameters that no workload without it has;
- if they came and went together: between the same two releases that were measured without them, on a workload that they
  share.

A setting whose value changed is the cause if exactly the runs with the changed value have the problem. It makes a problem of
its own, whatever else is worse in the same releases.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dsregress.compare.causal_order import causal_position, follows_from
from dsregress.compare.comparison import ChangedSetting, Problem, ProblemKind
from dsregress.compare.episodes import Episode
from dsregress.compare.failed_imports import failed_import, is_not_loaded
from dsregress.compare.finding_groups import gravity, kind_of, severity, worst_first
from dsregress.compare.metrics import OUTCOME, PARAMETER_ERROR
from dsregress.compare.outcomes import asks_for_a_rank, signature_of
from dsregress.compare.setting_effects import must_reach
from dsregress.model import AXES, Failed, Finding, TimedOut, split_workload
from dsregress.probe.border.detail_lines import package_refusing
from dsregress.wording.workload_words import is_given_program


class Measured(msgspec.Struct, frozen=True):
    """The workloads of a comparison."""

    parameters: Mapping[str, Mapping[str, Any]]  #: workload -> what its scenario and variant resolve to
    passed: Mapping[str, Collection[str]]  #: workload -> the stacks that it ran to the end with
    compared: Mapping[str, Collection[str]]  #: workload -> the stacks that were compared with the baseline


def problems(
    episodes: Iterable[Episode],
    found: Mapping[tuple[str, ...], Finding],
    settings: Sequence[ChangedSetting],
    order: Sequence[str],
    measured: Measured,
) -> list[Problem]:
    """Return all problems, the gravest first.

    ``found`` are the findings by their keys; ``order`` has the stack ids in version order.
    """
    judged = [
        _JudgedEpisode.of(episode, found) for episode in episodes if any(key in found for key in episode.findings)
    ]
    position = {stack: at for at, stack in enumerate(order)}
    workloads = _Workloads(measured, judged)
    explained, others = _explained(judged, settings)
    causes = [_Cause(members, setting) for setting, members in explained] + _merged_causes(others, order, workloads)
    changed = _by_runs(settings)
    for cause in causes:
        cause.setting = cause.setting or changed.get(cause.runs)
        if cause.setting is None:
            cause.moved = tuple(one for one in settings if cause.may_be_due_to(one))
    return sorted(
        (_problem(cause, order, workloads) for cause in causes),
        key=lambda problem: gravity(problem.kind, problem.worst, position[problem.until]),
    )


def unaffected(
    affected: Collection[str],
    stacks: Iterable[str],
    judged: Mapping[str, Collection[str]],
    having: Collection[tuple[str, str]] = (),
) -> list[str]:
    """Return the workloads, of the same device modes as the affected ones, that are free of a problem in one of these
    stacks: they are ``judged`` there (workload -> stacks), and are not one of the runs that have it (``having``: stack and
    workload)."""
    devices = {split_workload(workload).device for workload in affected}
    ours = list(stacks)
    return [
        workload
        for workload, theirs in judged.items()
        if workload not in affected
        and split_workload(workload).device in devices
        and any(stack in theirs and (stack, workload) not in having for stack in ours)
    ]


class _JudgedEpisode(msgspec.Struct, frozen=True):
    """An episode with its findings, the worst first."""

    episode: Episode
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, episode: Episode, found: Mapping[tuple[str, ...], Finding]) -> _JudgedEpisode:
        """Return an episode with those of its findings that ``found`` has."""
        return cls(episode, tuple(worst_first(found[key] for key in episode.findings if key in found)))

    @property
    def runs(self) -> set[tuple[str, str]]:
        """The runs that have it: stack and workload."""
        return {(stack, self.episode.workload) for stack in self.episode.having}

    @property
    def metrics(self) -> set[str]:
        """The metrics of its findings."""
        return {one.metric for one in self.findings}


class _Workloads:
    """Index: which workloads and stacks have which findings."""

    def __init__(self, measured: Measured, judged: Iterable[_JudgedEpisode]) -> None:
        self._measured = measured
        self._having: dict[tuple[str, ...], set[tuple[str, str]]] = defaultdict(set)
        for one in judged:
            self._having[one.episode.cause] |= one.runs

    def unaffected(
        self, cause: tuple[str, ...], affected: Collection[str], stacks: Iterable[str], *, needs_baseline: bool
    ) -> list[str]:
        """Return the workloads without a cause, as the module's `unaffected` does. Outcomes and findings of oracles need no
        baseline."""
        judged = self._measured.compared if needs_baseline else self._measured.passed
        return unaffected(affected, stacks, judged, self._having[cause])

    def is_shrunk(self, workload: str) -> bool:
        """Return True if a given program's models are made small, so that a few bytes more say nothing about the job."""
        is_given = is_given_program(split_workload(workload).scenario)
        return is_given and bool(self._measured.parameters[workload].get("tiny"))

    def share_a_condition(self, affected: Collection[str], others: Iterable[str]) -> bool:
        """Return True if the affected workloads have parameters in common that none of the others has."""
        first, *rest = (self._measured.parameters[workload] for workload in affected)
        common = {
            name: value for name, value in first.items() if all(name in one and one[name] == value for one in rest)
        }
        return not any(_meets(self._measured.parameters[other], common) for other in others)


def _meets(parameters: Mapping[str, object], condition: Mapping[str, object]) -> bool:
    return all(name in parameters and parameters[name] == value for name, value in condition.items())


class _Cause:
    """Episodes of one cause."""

    def __init__(self, first: Sequence[_JudgedEpisode], setting: ChangedSetting | None = None) -> None:
        self.members: list[_JudgedEpisode] = []
        self.related: list[_JudgedEpisode] = []
        self.key = first[0].episode.cause
        self.setting = setting
        self.moved: tuple[ChangedSetting, ...] = ()
        self.having: set[str] = set()
        self.free: set[str] = set()
        self.workloads: set[str] = set()
        for one in first:
            self.add(one)

    def may_be_due_to(self, setting: ChangedSetting) -> bool:
        """Return True if the setting changed in just these runs, and can move what is worse first."""
        runs = _with_numbers(setting.runs) if self.key[0] == PARAMETER_ERROR.family else frozenset(setting.runs)
        family = must_reach([one for member in self.members for one in member.findings])
        return family in setting.reaches and runs == self.runs

    def add(self, judged: _JudgedEpisode) -> None:
        """Add an episode with the same cause."""
        self.members.append(judged)
        self.having |= set(judged.episode.having)
        self.free |= judged.episode.free
        self.workloads.add(judged.episode.workload)

    @property
    def runs(self) -> frozenset[tuple[str, str]]:
        """The runs that have it: stack and workload."""
        return frozenset().union(*(one.runs for one in self.members))

    def has(self, judged: _JudgedEpisode, order: Sequence[str], workloads: _Workloads) -> bool:
        """Return True if the same thing is worse in the same releases."""
        episode = judged.episode
        if episode.cause != self.key:
            return False
        if self.key[0] == OUTCOME.name:
            own, others = ({order.index(stack) for stack in stacks} for stacks in (self.having, episode.having))
            return any(at + step in own for at in others for step in (-1, 0, 1))
        both = self.having.intersection(episode.having)
        if not both or not self._agrees(episode):
            return False
        if self.key[0] != PARAMETER_ERROR.family:
            return True
        affected = self.workloads | {episode.workload}
        without = workloads.unaffected(self.key, affected, both, needs_baseline=False)
        is_same = any(not judged.metrics.isdisjoint(one.metrics) for one in self.members)
        return is_same and workloads.share_a_condition(affected, without)

    def is_followed_by(self, other: _Cause) -> bool:
        """Return True if the other has the same runs, and may follow from what is first in them."""
        if self.key == other.key or self.runs != other.runs:
            return False
        first = min((found for one in self.members for found in one.findings), key=causal_position)
        return all(follows_from(found, first) for one in other.members for found in one.findings)

    def came_and_went_with(self, episode: Episode, order: Sequence[str]) -> bool:
        """Return True if both lie between the same two releases without them, on a workload that they share."""
        if episode.workload not in self.workloads or not self._agrees(episode):
            return False
        ends = _neighbours(self.having, self.free, order)
        return all(ends) and ends == _neighbours(episode.having, episode.free, order)

    def _agrees(self, episode: Episode) -> bool:
        """Return True if neither has a release that the other is free of."""
        return self.free.isdisjoint(episode.having) and self.having.isdisjoint(episode.free)


def _neighbours(having: Collection[str], free: Collection[str], order: Sequence[str]) -> tuple[str, str]:
    """Return the nearest releases without it, before and after; empty if none was measured."""
    at = [position for position, stack in enumerate(order) if stack in having]
    before = next((stack for stack in reversed(order[: at[0]]) if stack in free), "")
    return before, next((stack for stack in order[at[-1] :] if stack in free), "")


def _explained(
    judged: Sequence[_JudgedEpisode], settings: Sequence[ChangedSetting]
) -> tuple[list[tuple[ChangedSetting, list[_JudgedEpisode]]], list[_JudgedEpisode]]:
    """Return the episodes of training that a changed setting explains, and the rest."""
    left = list(judged)
    explained = []
    for runs, setting in _by_runs(settings).items():
        within = [one for one in left if one.episode.cause[0] == PARAMETER_ERROR.family and one.runs <= runs]
        if within and _with_numbers(runs) == frozenset().union(*(one.runs for one in within)):
            explained.append((setting, sorted(within, key=lambda one: severity(one.findings[0]))))
            left = [one for one in left if one not in within]
    return explained, left


def _with_numbers(runs: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Return the runs that can show trained values: a simulation has only shapes."""
    return frozenset((stack, workload) for stack, workload in runs if split_workload(workload).device != "sim")


def _by_runs(settings: Iterable[ChangedSetting]) -> dict[frozenset[tuple[str, str]], ChangedSetting]:
    """Return the settings that can be a cause, by the runs with the changed value. If several have the same runs, none
    can."""
    found: dict[frozenset[tuple[str, str]], list[ChangedSetting]] = defaultdict(list)
    for one in settings:
        found[frozenset(one.runs)].append(one)
    return {runs: one for runs, (one, *more) in found.items() if one.has_contrast and not more}


def _merged_causes(judged: Iterable[_JudgedEpisode], order: Sequence[str], workloads: _Workloads) -> list[_Cause]:
    """Return the causes of the episodes. The gravest episode of a cause comes first; episodes that moved with it are
    related."""
    causes: list[_Cause] = []
    for one in sorted(judged, key=lambda judged: severity(judged.findings[0])):
        home = next((cause for cause in causes if cause.has(one, order, workloads)), None)
        if home is None:
            causes.append(_Cause([one]))
        else:
            home.add(one)
    whole: list[_Cause] = []
    for cause in causes:
        home = next(
            (
                one
                for one in whole
                if one.is_followed_by(cause)
                or all(one.came_and_went_with(member.episode, order) for member in cause.members)
            ),
            None,
        )
        if home is None:
            whole.append(cause)
        else:
            home.related += cause.members
    return whole


def _problem(cause: _Cause, order: Sequence[str], workloads: _Workloads) -> Problem:
    affected: dict[str, set[str]] = defaultdict(set)
    for judged in cause.members:
        affected[judged.episode.workload].update(judged.episode.having)
    findings = worst_first(one for judged in cause.members for one in judged.findings)
    kind = kind_of(findings[0])
    if kind is ProblemKind.CRASH and cause.having.issuperset(order):
        is_alone = len(order) == 1 and (is_in_its_line(findings[0]) or waits_in_program(findings[0]))
        if is_alone or is_of_program(findings[0]):
            kind = ProblemKind.UNTESTABLE
    if kind is ProblemKind.UNTESTABLE and cause.free and asks_for_a_rank(findings[0].outcome):
        kind = ProblemKind.CRASH  # the same line is enough for another release
    if kind is ProblemKind.LEAK and all(map(workloads.is_shrunk, affected)) and all(map(_is_slight, findings)):
        kind = ProblemKind.MORE
    before, after = _neighbours(cause.having, cause.free - cause.having, order)
    needs_baseline = findings[0].kind not in ("wrong", "failed")
    others = workloads.unaffected(cause.key, affected, cause.having, needs_baseline=needs_baseline)
    return Problem(
        kind=ProblemKind.DIFFERENT if cause.setting is not None and kind is ProblemKind.WRONG else kind,
        findings=tuple(findings),
        related=tuple(sorted((one for judged in cause.related for one in judged.findings), key=severity)),
        affected={workload: _ordered(stacks, order) for workload, stacks in sorted(affected.items())},
        having=_ordered(cause.having, order),
        free=_ordered(cause.free - cause.having, order),
        unknown=_ordered(set(order) - cause.free - cause.having, order),
        before=before,
        after=after,
        setting=cause.setting,
        moved=cause.moved,
        unaffected=tuple(sorted(others)),
    )


#: Growth below this factor may be of a fixed size: a larger one grows with the model.
_SLIGHT = 1.25


def _is_slight(found: Finding) -> bool:
    return isinstance(found.ratio, float) and found.ratio < _SLIGHT


#: The package by which stacks are named if no other varies: what it lacks is a release's.
_NAMING = "deepspeed"

#: Packages whose crash may be that of the releases that are compared: trainers, and what refuses the settings of one.
_OF_TRAINERS = (*AXES, "trl", "pydantic", "pydantic_core")

#: Errors by which transformers refuses what a program's own line or code gives it, before it trains.
_REFUSALS = re.compile(r"not used by the HfArgumentParser|is already used by a Transformers (?:config|model)")

#: The stages in which no step has begun.
_BEFORE_STEPS = ("import", "init")

#: The error of a program that exits, or ends without a step: ``train.py exits with 2: unrecognized arguments: ...``.
_IN_PLACE_OF_TRAINING = "ProgramError"

#: Errors of a call that another release of a package may serve, though they arise in the line that calls.
_OF_INTERFACES = ("TypeError", "AttributeError", "ImportError", "ModuleNotFoundError")


def is_of_program(found: Finding) -> bool:
    """Return True if a failure is that of a given program's own code, of its exit in place of training, of an assertion,
    which says that something was called in a wrong way, of a package besides the trainers', or of a library that is not
    loaded here. If every release has it, it tells none from another."""
    signature = signature_of(found.outcome) if found.outcome is not None else None
    if signature is None or not is_given_program(found.scenario):
        return False
    is_own = signature.is_of_program and signature.error not in _OF_INTERFACES
    is_own = is_own or _REFUSALS.search(signature.message) is not None
    is_own = is_own or refusing_package(found) != ""
    is_own = is_own or (is_not_loaded(signature) and signature.package != _NAMING) or raising_package(found) != ""
    return is_own or signature.error in (AssertionError.__name__, _IN_PLACE_OF_TRAINING) or lacking_package(found) != ""


def refusing_package(found: Finding) -> str:
    """Return the package that does not take a call in a program's own line, unless releases are named by it; else empty."""
    signature = signature_of(found.outcome) if found.outcome is not None else None
    if signature is None or not signature.is_of_program or not isinstance(found.outcome, Failed):
        return ""
    package = package_refusing(found.outcome.detail)
    return package if package != _NAMING else ""


def waits_in_program(found: Finding) -> bool:
    """Return True if a given program was silent before its first step, at a place that is not DeepSpeed's: a stand-in, a
    thread or a file of its own may be what it waited for, and a single release shows nothing of another."""
    outcome = found.outcome
    if not isinstance(outcome, TimedOut) or outcome.working or not is_given_program(found.scenario):
        return False
    return outcome.stage in _BEFORE_STEPS and not any(f"{_NAMING}/" in place for place in outcome.whereabouts)


def is_in_its_line(found: Finding) -> bool:
    """Return True if a failure is that of a line of a given program, unless it imports from, or calls, the package by which
    releases are named."""
    signature = signature_of(found.outcome) if found.outcome is not None else None
    if signature is None or not signature.is_of_program or not is_given_program(found.scenario):
        return False
    missing = failed_import(signature)
    detail = found.outcome.detail if isinstance(found.outcome, Failed) else ""
    return _NAMING not in (missing.package if missing is not None else "", package_refusing(detail))


def raising_package(found: Finding) -> str:
    """Return the package in whose code a failure arose, besides the trainers'; else empty."""
    signature = signature_of(found.outcome) if found.outcome is not None else None
    if signature is None or signature.is_of_program or signature.package in _OF_TRAINERS:
        return ""
    return signature.package


def lacking_package(found: Finding) -> str:
    """Return the package that has not what a program's own line imports, unless releases are named by it; else empty."""
    signature = signature_of(found.outcome) if found.outcome is not None else None
    if signature is None or not signature.is_of_program:
        return ""
    missing = failed_import(signature)
    return missing.package if missing is not None and missing.is_installed and missing.package != _NAMING else ""


def _ordered(stacks: Iterable[str], order: Sequence[str]) -> tuple[str, ...]:
    having = set(stacks)
    return tuple(stack for stack in order if stack in having)
