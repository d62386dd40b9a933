"""The parts of a comparison: frozen values, ready to be reported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

import msgspec

from dsregress.compare.metrics import STEP_TIME
from dsregress.compare.result_summary import ResultSummary
from dsregress.errors import ResultsError
from dsregress.model import WRITTEN_BY, Finding, Outcome, Result, Stack
from dsregress.probe.border.wire import Detail

#: Reads the detail that explains a result's figures; None if it no longer exists. May be slow: called only for findings.
DetailOf = Callable[[Result], Detail | None]


def no_detail(result: Result) -> Detail | None:
    """Return None, as if the result had no detail."""
    return None


class Group(msgspec.Struct, frozen=True):
    """Findings that move together on one cell: the most telling one and the rest."""

    headline: Finding
    related: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, the headline first."""
        return (self.headline, *self.related)


#: The value of `NotCompared.what` if no metric has a verdict.
EVERYTHING = "everything"

#: The remedy for a cell that should have been measured but was not.
_AGAIN = "measure again"


class NotCompared(msgspec.Struct, frozen=True):
    """A cell or metric without a verdict, and the reason."""

    stack: str
    workload: str
    what: str  #: `EVERYTHING`, or a metric's name
    reason: str
    remedy: str = ""  #: what to do, of a cell that was to be measured and was not; empty for all others


def not_measured(stack: str, workload: str, reason: str, remedy: str = "") -> NotCompared:
    """Return the entry for a cell that should have been measured but was not; ``remedy`` is the first thing to do. No
    comparison with such a cell passes."""
    return NotCompared(stack, workload, EVERYTHING, reason, f"{remedy}, then {_AGAIN}" if remedy else _AGAIN)


class NotJudged(msgspec.Struct, frozen=True):
    """Cells that an oracle could not judge, and the reason."""

    oracle: str  #: ``memory`` or ``numerics``
    reason: str
    stacks_by_workload: dict[str, list[str]]  #: the cells


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """The step time of one cell relative to the baseline's, or of the baseline relative to itself."""

    stack: str
    workload: str
    ratio: float
    low: float  #: of the 95 % interval of the ratio
    high: float
    pairs: int
    value_s: float
    baseline_s: float
    p_value: float  #: once judged, corrected for the number of comparisons in the report
    metric: str = STEP_TIME.name  #: the clock: that of the wall, or `PROCESSOR_TIME`
    verdict: str = ""  #: slower, faster, same, unknown; control; empty before it is judged


class ChangedSetting(msgspec.Struct, frozen=True):
    """One setting whose value differs from the baseline's, and the runs that had the changed value. Values are spelled as
    JSON."""

    key: str
    value: str
    baseline: str
    runs: tuple[tuple[str, str], ...]  #: stack id and workload
    has_contrast: bool  #: other workloads of the same stacks had the baseline's value
    reaches: frozenset[str] = frozenset()  #: families of metrics that it can move in these runs


class ProblemKind(IntEnum):
    """The effect of a problem on a job, the gravest first."""

    WRONG = 0
    DIFFERENT = 1  #: by a default that changed, or where no truth says which release is right
    CRASH = 2
    OUT_OF_MEMORY = 3
    SAVES = 4  #: other tensors, where no truth says which release is right
    LEAK = 5
    LARGER_CARD = 6  #: a cost by its findings; what it takes is known only where cards are
    SLOWER = 7
    MORE = 8
    UNTESTABLE = 9  #: the release does not install or import here: nothing is known of its training

    @property
    def has_no_right_side(self) -> bool:
        """True if the problem tells two releases apart but not which of them is right."""
        return self in (ProblemKind.DIFFERENT, ProblemKind.SAVES)

    @property
    def is_cost(self) -> bool:
        """True if the problem is more memory, work or time: the price of a release, not a reason to leave it."""
        return self in (ProblemKind.LARGER_CARD, ProblemKind.SLOWER, ProblemKind.MORE)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Findings that share one cause."""

    kind: ProblemKind
    findings: tuple[Finding, ...]  #: that the cause is known by, the most telling first
    related: tuple[Finding, ...]  #: that came and went with them
    affected: dict[str, tuple[str, ...]]  #: workload -> stack ids that have it, in version order
    having: tuple[str, ...]  #: stack ids in version order, here and below
    free: tuple[str, ...]
    unknown: tuple[str, ...]  #: without a verdict
    before: str  #: the nearest stack without it before `since`; empty where none was measured
    after: str  #: the nearest one after `until`
    setting: ChangedSetting | None  #: the changed default that explains it
    unaffected: tuple[str, ...]  #: workloads judged in a release with the problem, and free of it there
    moved: tuple[ChangedSetting, ...] = ()  #: settings that changed in just these runs, and may be why

    @property
    def worst(self) -> Finding:
        """The most telling finding."""
        return self.findings[0]

    @property
    def since(self) -> str:
        """The first stack that has it."""
        return self.having[0]

    @property
    def until(self) -> str:
        """The last stack that has it."""
        return self.having[-1]


#: Reads the cells of a workload, by stack: all of them, or that of one stack.
ReadCells = Callable[[str, str | None], Mapping[str, ResultSummary]]


class Cells:
    """The newest result of each cell, workload by workload. The set of cells is known; their measurements are read on
    demand, so that 100,000 need not fit in memory.

    Reading raises ResultsError if results have disappeared since they were compared.
    """

    def __init__(
        self, stacks_by_workload: Mapping[str, Sequence[str]], read: ReadCells, detail_of: DetailOf = no_detail
    ) -> None:
        self._stacks = stacks_by_workload
        self._read = read
        self._detail_of = detail_of
        self._latest: tuple[str, dict[str, ResultSummary]] = ("", {})  # a workload's cells are needed several times

    @property
    def workloads(self) -> Collection[str]:
        """The workloads that have at least one cell."""
        return self._stacks.keys()

    def stacks_of(self, workload: str) -> Sequence[str]:
        """Return the stacks for which a workload has a cell. Read none of them."""
        return self._stacks[workload]

    def of_workload(self, workload: str) -> dict[str, ResultSummary]:
        """Return the cells of a workload by stack id."""
        if workload != self._latest[0]:
            self._latest = (workload, _complete(self._read(workload, None), self._stacks[workload], workload))
        return self._latest[1]

    def of(self, stack: str, workload: str) -> ResultSummary | None:
        """Return the cell of one stack, None if it has none. Read no other cell."""
        if stack not in self._stacks[workload]:
            return None
        if workload == self._latest[0]:
            return self._latest[1][stack]
        return _complete(self._read(workload, stack), [stack], workload)[stack]

    def detail_of(self, cell: ResultSummary) -> Detail | None:
        """Return the detail that explains a cell's figures; None if it has none, or it no longer exists."""
        return self._detail_of(cell.result)

    def __len__(self) -> int:
        return sum(map(len, self._stacks.values()))

    def __iter__(self) -> Iterator[ResultSummary]:
        for workload in self._stacks:
            yield from self.of_workload(workload).values()


def _complete(found: Mapping[str, ResultSummary], stacks: Sequence[str], workload: str) -> dict[str, ResultSummary]:
    try:
        return {stack: found[stack] for stack in stacks}
    except KeyError:
        raise ResultsError(
            "gone since it was compared", where=f"a result of {workload}", hint="run this again"
        ) from None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The complete judgement. Groups are sorted, the worst first."""

    baseline: str
    stacks: tuple[Stack, ...]  #: in version order
    names: dict[str, str]  #: stack id -> short name
    cells: Cells  #: the cells that were judged, each by its newest result
    parameters: dict[str, dict[str, Any]]  #: workload -> what its scenario and variant resolve to
    groups: tuple[Group, ...]
    small: tuple[Finding, ...]  #: listed findings below the thresholds
    small_differences: int  #: exact differences below the thresholds that were counted, not listed
    not_compared: tuple[NotCompared, ...]
    not_judged: tuple[NotJudged, ...]
    cards: dict[str, dict[str, list[str]]]  #: that simulated runs name -> workload -> stack ids
    step_times: tuple[StepTime, ...]
    control: tuple[StepTime, ...]
    problems: tuple[Problem, ...]  #: the gravest first
    notes: tuple[str, ...]
    passed: int
    ended: dict[str, dict[str, Outcome]]  #: workload -> stack id -> how its cell ended, of those that did not pass
    longest_s: dict[str, float]  #: workload -> seconds that the longest run of its cells took
    days: dict[
        str, tuple[str, str]
    ]  #: workload -> the first and the last day on which a cell of it was measured, in UTC
    compared: int  #: cells, without the baseline's, that were compared with the baseline's
    ran: int
    checkout: str = ""  #: the folder of the framework whose change was measured; empty if unknown, or none was

    def with_groups(self, groups: Sequence[Group]) -> Comparison:
        """Return the same comparison with findings that have more evidence."""
        known = {found.key: found for group in groups for found in group.findings}

        def renewed(found: Sequence[Finding]) -> tuple[Finding, ...]:
            return tuple(known[one.key] for one in found)

        problems = (
            msgspec.structs.replace(one, findings=renewed(one.findings), related=renewed(one.related))
            for one in self.problems
        )
        return msgspec.structs.replace(self, groups=tuple(groups), problems=tuple(problems))

    @property
    def measured_days(self) -> tuple[str, ...]:
        """The first and the last day of all cells, in UTC; one if they are the same, none without cells."""
        days = sorted(day for pair in self.days.values() for day in pair)
        return tuple(dict.fromkeys((days[0], days[-1]))) if days else ()

    @property
    def not_measured(self) -> tuple[NotCompared, ...]:
        """The cells that should have been measured but were not."""
        return tuple(entry for entry in self.not_compared if entry.remedy)

    @property
    def why_nothing_goes_on(self) -> str:
        """The reason why no line that was to go on from the files of another one says anything of a release; empty if one
        does, or there is none. One that fails beside a pass says something."""
        reasons = {(one.stack, one.workload): one.reason for one in self.not_compared if one.what == EVERYTHING}
        found: list[str] = []
        for workload, parameters in self.parameters.items():
            if not str(parameters.get("program", "")).startswith(f"{WRITTEN_BY}="):
                continue
            stacks, ended = self.cells.stacks_of(workload), self.ended.get(workload, {})
            others = [stack for stack in stacks if stack not in ended and stack != self.baseline]
            if 0 < len(ended) < len(stacks) or any((stack, workload) not in reasons for stack in others):
                return ""
            found += [reasons[stack, workload] for stack in others]
            found += ["no second line runs to its end"] if ended else []
        return next(iter(found), "")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the groups in their order, then those below the thresholds."""
        return (*(found for group in self.groups for found in group.findings), *self.small)
