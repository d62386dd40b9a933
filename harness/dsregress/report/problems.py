"""Problems in words, the same for every format: what, where, since and until, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from dsregress.advice.assessment import Assessment
from dsregress.advice.card_rooms import CardRoom
from dsregress.compare import Comparison, Problem, ProblemKind
from dsregress.compare.exact import change
from dsregress.compare.metrics import BY_NAME, HOST_CALLS, PROCESSOR_TIME, SMALLEST_CARD, STEP_TIME
from dsregress.compare.releases import axis_ranges, ranges
from dsregress.model import AXES, Finding, split_workload
from dsregress.report.plain import plain
from dsregress.wording import workloads
from dsregress.wording.names import varied_axes, version
from dsregress.wording.quantities import listing, plural, quantity
from dsregress.wording.workloads import DistinguishingParameters

#: The title of each kind's section, and the words that count its problems in the headline. Kinds may share a section.
TITLES = {
    ProblemKind.WRONG: "TRAINS WRONG",
    ProblemKind.DIFFERENT: "TRAINS DIFFERENTLY",
    ProblemKind.CRASH: "CRASHES",
    ProblemKind.OUT_OF_MEMORY: "OUT OF MEMORY",
    ProblemKind.LEAK: "HOLDS MORE MEMORY",
    ProblemKind.SAVES: "SAVES DIFFERENTLY",
    ProblemKind.LARGER_CARD: "NEEDS A LARGER CARD",
    ProblemKind.SLOWER: "COSTS MORE",
    ProblemKind.MORE: "COSTS MORE",
    ProblemKind.UNTESTABLE: "CANNOT BE TESTED HERE",
}
_COUNTED = {
    "TRAINS WRONG": ("fault in training", "faults in training"),
    "TRAINS DIFFERENTLY": ("silent change of training", "silent changes of training"),
    "CRASHES": ("crash", "crashes"),
    "OUT OF MEMORY": ("out of memory", "out of memory"),
    "HOLDS MORE MEMORY": ("memory leak", "memory leaks"),
    "SAVES DIFFERENTLY": ("changed checkpoint", "changed checkpoints"),
    "NEEDS A LARGER CARD": ("that needs a larger card", "that need a larger card"),
    "COSTS MORE": ("that costs more", "that cost more"),
    "CANNOT BE TESTED HERE": ("that cannot be tested here", "that cannot be tested here"),
}

#: ``stage=sft or stage=dpo``, in a condition.
_SEVERAL_VALUES = re.compile(r"=[^,]* or ")

_RANK = re.compile(r", rank \d+$")

#: The package that lacks an imported part.
_IMPORTED = re.compile(r"(?:cannot import name '[^']+' from|No module named) '(\w+)")

#: An installed package, in a release that lacks what is imported: ``No module named 'huggingface_hub.utils._errors'``,
#: ``cannot import name 'BUFSIZE' from 'numpy' (numpy/__init__.py)``. One without a folder may be the program's own.
_LACKING = re.compile(r"No module named '(\w+)\.|cannot import name '[^']+' from '(\w+)[^']*' \(\2/")

#: The package in which an error arose: ``ValueError: got 0 (deepspeed/runtime/lr_schedules.py:__init__)``.
_RAISED = re.compile(r"\((\w+)/[\w/]+\.py:[\w<>]+\)$")

#: Workloads that are listed if nothing distinguishes them from the others.
_MOST_WORKLOADS = 2


class ProblemLine(msgspec.Struct, frozen=True, kw_only=True):
    """One problem."""

    number: int
    kind: ProblemKind
    releases: str  #: ``0.16.0 to 0.16.7``
    who: str  #: the beginning of ``text``, if it names the affected workloads
    text: str  #: the affected workloads, and the symptom
    consequence: str  #: the effect on the named card, and what to do; empty if nothing is known, or needed
    since: str  #: with the neighbor that was measured without it
    until: str
    having: tuple[str, ...]  #: stack ids, here and below
    free: tuple[str, ...]
    unknown: tuple[str, ...]
    workloads: tuple[str, ...]
    release_to_use: str  #: a stack id; empty if none is known, or none is needed
    setting: str  #: the changed default that explains it; empty if none does
    keys: tuple[tuple[str, ...], ...]  #: of its findings
    evidence: tuple[str, ...]  #: of the worst run
    related: tuple[str, ...]  #: findings that appeared and disappeared with it
    worst: Finding

    @property
    def sentences(self) -> str:
        """Return the text and the consequence."""
        return f"{self.text} {self.consequence}".rstrip()


class ProblemSection(msgspec.Struct, frozen=True):
    """The problems under one title."""

    title: str
    problems: tuple[ProblemLine, ...]


def sections(comparison: Comparison, assessed: Sequence[Assessment]) -> tuple[ProblemSection, ...]:
    """Return all problems by title, the gravest first, numbered throughout."""
    distinguishing = DistinguishingParameters(comparison.parameters)
    lines = [_line(comparison, one, who(one.problem, distinguishing), number) for number, one in enumerate(assessed, 1)]
    titles = dict.fromkeys(TITLES[line.kind] for line in lines)
    return tuple(ProblemSection(title, tuple(line for line in lines if TITLES[line.kind] == title)) for title in titles)


def counted(comparison: Comparison, sections: Sequence[ProblemSection]) -> str:
    """Return the number of problems by title: ``1 silent change of training, 5 that cost more; fixed since 0.16.8: 2
    crashes``. Problems of the baseline alone are counted apart: they are no cost of an upgrade."""

    def count(is_fixed: bool) -> str:
        counts = (sum(_is_fixed(comparison, line) == is_fixed for line in one.problems) for one in sections)
        return ", ".join(plural(n, *_COUNTED[one.title]) for n, one in zip(counts, sections, strict=True) if n)

    if not (fixed := count(True)):
        return count(False)
    return f"{count(False) or 'nothing is worse'}; fixed since {comparison.names[comparison.baseline]}: {fixed}"


def _is_fixed(comparison: Comparison, line: ProblemLine) -> bool:
    """Return True if the baseline alone has a problem, and a later release was measured without it."""
    if line.having != (comparison.baseline,):
        return False
    order = [stack.id for stack in comparison.stacks]
    return any(stack in line.free for stack in order[order.index(comparison.baseline) + 1 :])


def _line(comparison: Comparison, assessed: Assessment, affected: str, number: int) -> ProblemLine:
    problem = assessed.problem
    since, until = _ends(comparison, problem)
    return ProblemLine(
        number=number,
        kind=assessed.kind,
        releases=_releases(comparison, problem),
        who=plain(affected),
        text=plain(_text(comparison, assessed, affected)),
        consequence=plain(" ".join(_consequences(comparison, assessed))),
        since=since,
        until=until,
        having=problem.having,
        free=problem.free,
        unknown=problem.unknown,
        workloads=tuple(problem.affected),
        release_to_use=assessed.release,
        setting=problem.setting.key if problem.setting is not None else "",
        keys=tuple(found.key for found in (*problem.findings, *problem.related)),
        evidence=(problem.worst.message, *problem.worst.evidence),
        related=tuple(dict.fromkeys(found.message for found in problem.related)),
        worst=problem.worst,
    )


def _ends(comparison: Comparison, problem: Problem) -> tuple[str, str]:
    """Return since when and until when, with the neighbors that do not have the problem. No release is known to be without
    an intermittent problem."""
    if problem.worst.intermittent:
        others = "others, which ran once, may go wrong now and then as well"
        return _end(comparison, problem.since, "", others), _end(comparison, problem.until, "", others)
    is_newest = problem.until == comparison.stacks[-1].id
    after = "still in the newest measured" if is_newest else "no later release was measured without it"
    return (
        _end(comparison, problem.since, problem.before, "no earlier release was measured without it"),
        _end(comparison, problem.until, problem.after, after),
    )


def _end(comparison: Comparison, stack: str, neighbor: str, otherwise: str) -> str:
    """Return ``0.16.0; not in 0.15.4``, or ``otherwise`` after the name if no neighbor was measured without the problem."""
    if not neighbor:
        return f"{comparison.names[stack]}; {otherwise}"
    return f"{_beside(comparison, stack, neighbor)}; not in {_beside(comparison, neighbor, stack)}"


def _releases(comparison: Comparison, problem: Problem) -> str:
    """Return the affected releases as ranges, each of which ends at a release without a verdict. If several packages vary,
    name the package that varies among the affected stacks, or one of which every unaffected stack has another release; else
    return the number of stacks."""
    stacks, names = comparison.stacks, comparison.names
    having = [stack for stack in stacks if stack.id in problem.having]
    if len(varied_axes(stacks)) < 2 or any(stack.existed for stack in having):
        return ranges(problem.having, stacks, names)
    axes = varied_axes(having)
    if len(axes) == 1:
        return axis_ranges(axes[0], having, [one for one in stacks if set(varied_axes([one, having[0]])) <= set(axes)])
    free = [stack for stack in stacks if stack.id in problem.free]
    beside = [stack for stack in stacks if stack.id in (problem.before, problem.after)]
    for axis in (*varied_axes([having[0], *beside]), *varied_axes(stacks)):
        with_it, without = ({version(stack, axis) for stack in some} for some in (having, free))
        if free and "" not in with_it and with_it.isdisjoint(without):
            return axis_ranges(axis, having, stacks)
    return names[having[0].id] if len(having) == 1 else f"{len(having)} of {plural(len(stacks), 'stack')}"


def _text(comparison: Comparison, assessed: Assessment, affected: str) -> str:
    problem, setting = assessed.problem, ""
    if problem.setting is not None:
        key = problem.setting.key.partition(".")[2] or problem.setting.key
        setting = f"{key} is {problem.setting.value} where it is not set, was {problem.setting.baseline}"
        if assessed.kind is ProblemKind.DIFFERENT:
            return f"{setting}."
    what = _what(comparison, problem)
    if assessed.kind is ProblemKind.UNTESTABLE:
        return f"{what}."
    return f"{affected}: {what}{f'; {setting}' if setting else ''}."


#: If more defaults changed, it is another interface, and no single default explains anything.
_MOST_MOVED = 4


def _consequences(comparison: Comparison, assessed: Assessment) -> Iterator[str]:
    problem = assessed.problem
    if problem.setting is not None:
        yield f"Set it; {problem.setting.baseline} keeps the old behaviour."
        if assessed.room is not None:
            yield room_text(comparison, problem.worst.stack, assessed.room)
        return
    if assessed.kind is ProblemKind.UNTESTABLE:
        imported = _IMPORTED.search(str(problem.worst.value))
        if (imported is not None and imported[1] in AXES) or _LACKING.search(str(problem.worst.value)):
            yield from _other_packages(comparison, problem)
        return
    if assessed.kind.has_no_right_side:
        yield "This comparison cannot tell which release is right."
    if assessed.kind is not ProblemKind.CRASH and 1 <= len(problem.moved) <= _MOST_MOVED:
        moved = [f"{one.key.partition('.')[2]} ({one.baseline}, now {one.value})" for one in problem.moved]
        yield f"Defaults that changed with it, and may be why: {listing(moved)}."
    if assessed.room is not None:
        yield room_text(comparison, problem.worst.stack, assessed.room)
    if assessed.release:
        order, use = list(comparison.names), "Use"
        if order.index(assessed.release) < order.index(problem.since) and assessed.kind >= ProblemKind.LEAK:
            is_next = assessed.release == problem.before
            use = "The last release without it is" if is_next else "The last sound release is"
        yield f"{use} {_beside(comparison, assessed.release, problem.worst.stack)}."
    is_everywhere = len(problem.having) == len(comparison.stacks)
    if assessed.kind is ProblemKind.CRASH and is_everywhere and workloads.is_given_program(problem.worst.scenario):
        yield from _other_packages(comparison, problem)


def _other_packages(comparison: Comparison, problem: Problem) -> Iterator[str]:
    """Yield the other packages to try if a program fails alike in every measured release: it may be written for packages of
    another time. A failed import names them; else the package whose code failed comes first."""
    versions = next(stack.versions for stack in comparison.stacks if stack.id == problem.worst.stack)
    imported = _IMPORTED.search(str(problem.worst.value))
    lacking = _LACKING.search(str(problem.worst.value))
    raised = _RAISED.search(str(problem.worst.value))
    if imported is not None and imported[1] in versions:
        importing = [raised[1]] if raised is not None and raised[1] in versions else []
        packages = [*dict.fromkeys((imported[1], *importing))]  # either may be the one of another day
    elif lacking is not None:
        packages = [(lacking[1] or lacking[2]).replace("_", "-")]
    else:
        first = [raised[1]] if raised is not None and raised[1] in versions else []
        others = dict.fromkeys((*first, "transformers", "accelerate", "torch"))
        packages = [one for one in others if one not in varied_axes(comparison.stacks)]
    options = [f"--{package}" if package in AXES else f"--with {package}=RELEASE" for package in packages]
    if options:
        yield f"Other packages may pass: {listing(options)}."


def who(problem: Problem, distinguishing: DistinguishingParameters) -> str:
    """Return the affected workloads in words: their scenario if all of its workloads are affected, or the parameters that no
    unaffected workload has, with their number; else a list of workloads."""
    affected = list(problem.affected)
    count = f" ({plural(len(affected), 'workload')})" if len(affected) > 1 else ""
    scenarios = {split_workload(workload).scenario for workload in affected}
    beside = [other for other in problem.unaffected if split_workload(other).scenario in scenarios]
    if len(scenarios) == 1 and not beside:
        return f"{scenarios.pop()}{count}"
    if not problem.unaffected:
        return f"all {plural(len(affected), 'workload')}"
    found = [distinguishing.of(affected, problem.unaffected)]
    if len(scenarios) == 1 and (inside := distinguishing.of(affected, beside)):
        found.append(f"{scenarios.pop()}, {inside}")
    # A parameter by its own name says nothing without its scenario, nor with values of several.
    if (len(found) > 1 and "=" in found[0]) or (len(scenarios) > 1 and _SEVERAL_VALUES.search(found[0])):
        del found[0]
    if any(found):
        return f"{min(filter(None, found), key=len)}{count}"
    return listing([workload.rpartition("/")[0] for workload in affected], _MOST_WORKLOADS)


def _what(comparison: Comparison, problem: Problem) -> str:
    found = _newest(problem)
    metric = BY_NAME[found.metric]
    if metric.family == STEP_TIME.family:
        return _slower(problem)
    if metric is SMALLEST_CARD:
        sizes = (quantity(size, metric.unit) for size in (found.value, found.baseline_value))
        return "needs a card of {}, was {} (the allocator's model)".format(*sizes)
    if metric.exact and found.kind == "regression" and problem.before not in ("", comparison.baseline):
        return _change_from(comparison, found, problem.before)
    text = str(found.value) if found.kind == "failed" else _RANK.sub("", found.message).removeprefix("the ")
    if metric.family == HOST_CALLS.family and (ratio := _measured_ratio(comparison, found)):
        text += f" (a step takes {ratio})"
    return text


def _newest(problem: Problem) -> Finding:
    """Return the worst finding in the newest release that has the problem: earlier ones may have more, by another cause."""
    return next((one for one in problem.findings if one.stack == problem.until), problem.worst)


def _change_from(comparison: Comparison, found: Finding, before: str) -> str:
    """Return the change from the last release without the problem, or the finding's message, which compares with the
    baseline, if that release has no value."""
    metric = BY_NAME[found.metric]
    cell = comparison.cells.of(before, found.workload)
    value = cell.worst().get(metric.flat_name(found.phase)) if cell is not None else None
    if value is None:
        return _RANK.sub("", found.message)
    subject = "a step" if metric.is_for_all_phases else found.phase
    return change(metric, subject, found.value, value, than=_beside(comparison, before, found.stack))


def _beside(comparison: Comparison, stack: str, other: str) -> str:
    """Return the name of a stack in contrast to another one; if several packages vary, those in which the two differ."""
    own, beside = (next(one for one in comparison.stacks if one.id == name) for name in (stack, other))
    if own.existed or beside.existed or len(varied_axes(comparison.stacks)) < 2:
        return comparison.names[stack]
    differing = [axis for axis in varied_axes([own, beside]) if version(own, axis)]
    return " ".join(f"{axis} {version(own, axis)}" for axis in differing) or comparison.names[stack]


def _slower(problem: Problem) -> str:
    newest = [one for one in problem.findings if one.stack == problem.until] or problem.findings
    worst = max(newest, key=lambda one: one.ratio or 0.0)
    ratios = sorted(one.ratio for one in newest if one.ratio is not None and one.metric == worst.metric)
    size = f"{ratios[0]:.2f}x to {ratios[-1]:.2f}x" if ratios[0] != ratios[-1] else f"{ratios[0]:.2f}x"
    most = f", most on {worst.scenario}" if len(problem.affected) > 1 else ""
    size += _CLOCKS[worst.metric]
    return f"a step takes {size}{most}{' (CPU ranks: host overhead)' if worst.device == 'cpu' else ''}"


#: The words after a ratio, by metric.
_CLOCKS = {STEP_TIME.name: "", PROCESSOR_TIME.name: " the processor time"}


def _measured_ratio(comparison: Comparison, found: Finding) -> str:
    """Return the measured ratio of the same cell's step time; empty if it was not timed."""
    times = (t for t in comparison.step_times if (t.stack, t.workload) == (found.stack, found.workload))
    return next((f"{time.ratio:.2f}x{_CLOCKS[time.metric]}" for time in times), "")


def _scale(comparison: Comparison, stack: str, workload: str) -> str:
    """Return a job's scale: ``llama-3-70b on 32 ranks``."""
    cell = comparison.cells.of(stack, workload)
    parameters = cell.result.cell.parameters if cell is not None else {}
    ranks = f" on {plural(parameters['world_size'], 'rank')}" if "world_size" in parameters else ""
    return f"{parameters.get('model', split_workload(workload).scenario)}{ranks}"


def room_text(comparison: Comparison, stack: str, room: CardRoom) -> str:
    """Return a run's room as a sentence: ``llama-3-70b on 32 ranks fits A800-80G, 28.4 GiB to spare.``"""
    job = _scale(comparison, stack, room.workload)
    if room.own.fits:
        spare = f"{job} fits {room.card}, {quantity(room.own.headroom_bytes, 'bytes')} to spare"
        if not room.needs_larger_card:
            return f"{spare}."
        return f"{spare}; the smallest card for it is {room.smallest}, was {room.baseline_smallest}."
    was = f", was {quantity(room.baseline.peak_bytes, 'bytes')}" if room.baseline is not None else ""
    return f"{job} does not fit {room.card}: needs {quantity(room.own.peak_bytes, 'bytes')}{was}."
