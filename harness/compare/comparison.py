"""What a comparison is made of: frozen values, ready to be reported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

import msgspec

from harness.compare.metrics import STEP_TIME
from harness.compare.summary import ResultSummary
from harness.errors import ResultsError
from harness.model import Finding, Outcome, Result, Stack
from harness.probe.border.wire import Detail

#: Reads what explains a result's figures; None where it is not there any more. May be slow: called only for findings.
DetailOf = Callable[[Result], Detail | None]


class Group(msgspec.Struct, frozen=True):
    """Findings that move together on one cell: the most telling one, and the rest."""

    headline: Finding
    related: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them, the headline first."""
        return (self.headline, *self.related)


#: What `NotCompared.what` says where no metric has a verdict.
EVERYTHING = "everything"

#: What to do about a cell that was to be measured and was not.
_AGAIN = "measure again"


class NotCompared(msgspec.Struct, frozen=True):
    """What has no verdict, and why."""

    stack: str
    workload: str
    what: str  #: `EVERYTHING`, or a metric's name
    reason: str
    remedy: str = ""  #: what to do, of a cell that was to be measured and was not; empty for all others


def not_measured(stack: str, workload: str, reason: str, remedy: str = "") -> NotCompared:
    """The entry for a cell that was to be measured and was not; ``remedy`` is what to do first. No comparison with such a
    cell passes."""
    return NotCompared(stack, workload, EVERYTHING, reason, f"{remedy}, then {_AGAIN}" if remedy else _AGAIN)


class NotJudged(msgspec.Struct, frozen=True):
    """Cells of which an oracle says nothing, and why."""

    oracle: str  #: ``memory`` or ``numerics``
    reason: str
    stacks_by_workload: dict[str, list[str]]  #: the cells


class StepTime(msgspec.Struct, frozen=True, kw_only=True):
    """The step time of one cell against the baseline's, or of the baseline against itself."""

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
    """One setting that had another value than the baseline's, and the runs that had it. Values are spelled as JSON."""

    key: str
    value: str
    baseline: str
    runs: tuple[tuple[str, str], ...]  #: stack id and workload
    has_contrast: bool  #: whether other workloads of the same stacks had the baseline's value


class ProblemKind(IntEnum):
    """What a problem does to a job, the gravest first."""

    WRONG = 0
    DIFFERENT = 1  #: by a default that changed, or where no truth says which release is right
    CRASH = 2
    OUT_OF_MEMORY = 3
    LEAK = 4
    SAVES = 5  #: other tensors, where no truth says which release is right
    LARGER_CARD = 6  #: a cost by its findings; what it takes is known only where cards are
    SLOWER = 7
    MORE = 8
    UNTESTABLE = 9  #: the release does not install or import here: nothing is known of its training

    @property
    def has_no_right_side(self) -> bool:
        """Whether it tells two releases apart, and not which of them is right."""
        return self in (ProblemKind.DIFFERENT, ProblemKind.SAVES)

    @property
    def is_cost(self) -> bool:
        """Whether it is more memory, work or time: the price of a release, not a reason to leave it."""
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
    unaffected: tuple[str, ...]  #: workloads that were judged in a release that has it, and do not have it there
    moved: tuple[ChangedSetting, ...] = ()  #: settings that changed in just these runs, and may be why

    @property
    def worst(self) -> Finding:
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
    """The newest result of each cell, workload by workload. Which cells there are is known; what was measured on them is
    read when it is needed, so that 100,000 need not fit in memory.

    Reading raises ResultsError where results have gone since they were compared.
    """

    def __init__(self, stacks_by_workload: Mapping[str, Sequence[str]], read: ReadCells) -> None:
        self._stacks = stacks_by_workload
        self._read = read
        self._latest: tuple[str, dict[str, ResultSummary]] = ("", {})  # a workload's cells are needed several times

    @property
    def workloads(self) -> Collection[str]:
        return self._stacks.keys()

    def stacks_of(self, workload: str) -> Sequence[str]:
        """The stacks that a workload has a cell of. Reads none."""
        return self._stacks[workload]

    def of_workload(self, workload: str) -> dict[str, ResultSummary]:
        """Stack id -> its cell."""
        if workload != self._latest[0]:
            self._latest = (workload, _complete(self._read(workload, None), self._stacks[workload], workload))
        return self._latest[1]

    def of(self, stack: str, workload: str) -> ResultSummary | None:
        """The cell of one stack; None where there is none. Reads no other."""
        if stack not in self._stacks[workload]:
            return None
        if workload == self._latest[0]:
            return self._latest[1][stack]
        return _complete(self._read(workload, stack), [stack], workload)[stack]

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
    """All that was judged. Groups are sorted, worst first."""

    baseline: str
    stacks: tuple[Stack, ...]  #: in version order
    names: dict[str, str]  #: stack id -> short name
    cells: Cells  #: what was judged: the newest result of each cell
    parameters: dict[str, dict[str, Any]]  #: workload -> what its scenario and variant resolve to
    groups: tuple[Group, ...]
    small: tuple[Finding, ...]  #: what is below the thresholds, as far as it is listed
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
    compared: int  #: cells, without the baseline's, that were compared with the baseline's
    ran: int

    def with_groups(self, groups: Sequence[Group]) -> Comparison:
        """With the same findings, of which some have more evidence."""
        known = {found.key: found for group in groups for found in group.findings}

        def renewed(found: Sequence[Finding]) -> tuple[Finding, ...]:
            return tuple(known[one.key] for one in found)

        problems = (
            msgspec.structs.replace(one, findings=renewed(one.findings), related=renewed(one.related))
            for one in self.problems
        )
        return msgspec.structs.replace(self, groups=tuple(groups), problems=tuple(problems))

    @property
    def not_measured(self) -> tuple[NotCompared, ...]:
        """The cells that were to be measured and were not."""
        return tuple(entry for entry in self.not_compared if entry.remedy)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the groups in their order, then what is below the thresholds."""
        return (*(found for group in self.groups for found in group.findings), *self.small)
