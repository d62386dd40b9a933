"""The release to use, of those that a comparison measured, and for which workloads not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from packaging.version import Version

from dsregress.compare import ProblemKind
from dsregress.compare.metrics import BY_NAME
from dsregress.messages import AND, COMMA, SEMICOLON, Text, joined, message, name_list, plural_message
from dsregress.report.context import ReportContext
from dsregress.report.problem_lines import ProblemLine
from dsregress.report.release_verdicts import ReleaseVerdict, ReleaseVerdicts
from dsregress.versions.commits import is_commit
from dsregress.versions.releases import known_releases, parsed_version

#: Problems that are named of each kind.
_MOST_NAMES = 4


class ReleaseChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The newest release that can be used on more of its workloads than not, and what its user has to know."""

    stack: str
    against: tuple[str, ...]  #: numbers of the problems, and ids of the advisories, that rule it out on their workloads
    undecided: tuple[str, ...]  #: numbers of the problems of which nothing says which side is right
    provisos: tuple[str, ...]  #: numbers and ids of what is to be set, or known
    unjudged: int  #: workloads on which it has no verdict


def choose(context: ReportContext, lines: Sequence[ProblemLine]) -> ReleaseChoice | None:
    """Return the choice; None if there is none, or not one package alone varies, by releases.

    A release that was measured on less than half the workloads of the one that was measured on most is no answer for them.
    """
    package, stacks = context.only_axis, [stack.id for stack in context.comparison.stacks]
    if len(stacks) < 2 or not package or any(is_commit(one.versions[package]) for one in context.comparison.stacks):
        return None
    verdicts = ReleaseVerdicts(context)
    judged = {stack: sum(verdicts.is_judged(stack, one) for one in _workloads(context, stack)) for stack in stacks}
    most = max(judged[stack] for stack in stacks if stack != context.comparison.baseline)
    for stack in (one for one in reversed(stacks) if 2 * judged[one] >= most):
        own = [line for line in lines if stack in line.having]
        fare = {one: verdicts.of(stack, one) for one in _workloads(context, stack)}
        if 2 * (judged[stack] - len(_ruled_out(own, fare))) > judged[stack]:
            return _summed_up(stack, fare, own)
    return None


def _ruled_out(lines: Sequence[ProblemLine], fare: Mapping[str, ReleaseVerdict]) -> set[str]:
    """Return the judged workloads of which a verdict, or a problem that names another release, rules a release out."""
    elsewhere = {one for line in lines if _names_another(line) for one in line.workloads}
    return {one for one, verdict in fare.items() if verdict.is_judged and (verdict.against or one in elsewhere)}


def choice_text(context: ReportContext, choice: ReleaseChoice) -> Text:
    """Return the choice as a sentence: ``Use deepspeed 0.19.8; read 1 and 4 first.``"""
    release = message("{package} {version}", package=context.only_axis, version=context.name_of(choice.stack))
    use = message("Use {release}", release=release)
    if not _is_newest(context, choice.stack):
        use = message("Of these releases, use {release}", release=release)
    if choice.undecided:
        use = plural_message(
            "{use} only if the change of {problems} is right",
            "{use} only if the changes of {problems} are right",
            len(choice.undecided),
            use=use,
            problems=_numbers(choice.undecided),
        )
    parts: list[Text] = [use]
    if choice.against:
        parts.append(message("not for the workloads of {problems}", problems=_numbers(choice.against)))
    if choice.provisos:
        parts.append(message("read {problems} first", problems=_numbers(choice.provisos)))
    if choice.unjudged:
        parts.append(
            plural_message("{count:,} workload has no verdict", "{count:,} workloads have no verdict", choice.unjudged)
        )
    return message("{sentence}.", sentence=joined(SEMICOLON, parts))


def _is_newest(context: ReportContext, stack: str) -> bool:
    """Return True for a release as new as the newest that is known: of an older one, more may be known elsewhere."""
    package = context.only_axis
    own, known = parsed_version(context.stacks[stack].versions[package]), known_releases(package)
    return own is not None and bool(known) and own >= max(map(Version, known))


def _numbers(names: Sequence[str]) -> Text:
    """Return ``1, 4 and 5``, of many the first ones and their number."""
    if len(names) > _MOST_NAMES:
        return name_list(names, _MOST_NAMES)
    return joined(AND, [part for part in (joined(COMMA, names[:-1]), names[-1]) if part])


def _workloads(context: ReportContext, stack: str) -> list[str]:
    """Return the workloads on which a release was measured."""
    cells = context.comparison.cells
    return [one for one in cells.workloads if stack in cells.stacks_of(one)]


def _summed_up(stack: str, fares: Mapping[str, ReleaseVerdict], lines: Sequence[ProblemLine]) -> ReleaseChoice:
    """Return the choice of a release. ``lines`` are the problems that it has."""
    against: list[str] = []
    undecided: list[str] = []
    provisos: list[str] = []
    for line in lines:
        if _is_against(line, fares):
            against.append(str(line.number))
        elif line.kind is ProblemKind.UNTESTABLE or (line.kind.is_cost and line.kind is not ProblemKind.LARGER_CARD):
            continue
        elif line.kind.has_no_right_side and not (line.advisories or line.setting):
            undecided.append(str(line.number))
        else:
            provisos.append(str(line.number))
    said = {one for line in lines for one in line.advisories}
    ids = {name for one in fares.values() for name in one.against if name.startswith("DSR-")} - said
    settings = {name for one in fares.values() for name in one.conditions} - said
    return ReleaseChoice(
        stack=stack,
        against=(*against, *sorted(ids)),
        undecided=tuple(undecided),
        provisos=(*provisos, *sorted(settings)),
        unjudged=sum(not one.is_judged for one in fares.values()),
    )


def _names_another(line: ProblemLine) -> bool:
    """Return True if a problem that ends a job, or spoils it, has another release to use."""
    return bool(line.release_to_use) and line.kind < ProblemKind.LEAK


def _is_against(line: ProblemLine, fares: Mapping[str, ReleaseVerdict]) -> bool:
    """Return True if a problem is what rules the release out on a workload."""
    if _names_another(line):
        return True
    words = line.advisories or (BY_NAME[line.worst.metric].fails or "worse",)
    return any(not set(words).isdisjoint(fares[one].against) for one in line.workloads if one in fares)
