"""What a comparison is made of: frozen values, ready to be reported."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import overload

import msgspec

from harness.compare.summary import Measured
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


class NotCompared(msgspec.Struct, frozen=True):
    """What has no verdict, and why."""

    stack: str
    workload: str
    what: str  #: "everything", or a metric's name
    reason: str


class StepTime(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The step time of one cell against the baseline's, or of the baseline against itself. As many as
    `harness.model.Finding`."""

    stack: str
    workload: str
    ratio: float
    low: float  #: of the 95 % interval of the ratio
    high: float
    pairs: int
    value_s: float
    baseline_s: float
    p_value: float  #: corrected for the number of comparisons in the report
    verdict: str  #: slower, faster, same, unknown; control


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One headline finding over the releases: who has it and who does not, of what was measured."""

    metric: str
    phase: str
    kind: str
    workloads: tuple[str, ...]
    having: tuple[str, ...]  #: stack ids in version order
    free: tuple[str, ...]
    unknown: tuple[str, ...]  #: no verdict for them
    worst: Finding
    sentence: str


class Cells(Sequence[Measured]):
    """Cells of many workloads, those of one workload next to each other. One that is asked for may be decoded only then."""

    def __init__(self, parts: Iterable[tuple[Sequence[Measured], Mapping[str, Sequence[str]]]]) -> None:
        """From parts, each of whole workloads: cells, and workload -> the stacks of its cells in their order."""
        self._parts: list[Sequence[Measured]] = []
        self._starts: list[int] = []
        self._places: dict[str, tuple[int, Sequence[str]]] = {}
        self._length = 0
        for cells, places in parts:
            self._parts.append(cells)
            self._starts.append(self._length)
            for workload, stacks in places.items():
                self._places[workload] = (self._length, stacks)
                self._length += len(stacks)

    @property
    def workloads(self) -> Collection[str]:
        return self._places.keys()

    def stacks_of(self, workload: str) -> Sequence[str]:
        """The stacks that a workload has a cell of. Decodes none."""
        return self._places[workload][1]

    @functools.cached_property
    def names(self) -> list[tuple[str, str]]:
        """Stack id and workload of each cell, in their order. Decodes none."""
        return [(stack, workload) for workload, (_, stacks) in self._places.items() for stack in stacks]

    def of_workload(self, workload: str) -> dict[str, Measured]:
        """Stack id -> its cell."""
        first, stacks = self._places[workload]
        return {stack: self[first + at] for at, stack in enumerate(stacks)}

    def of(self, stack: str, workload: str) -> Measured | None:
        first, stacks = self._places[workload]
        return self[first + stacks.index(stack)] if stack in stacks else None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Measured]:
        return itertools.chain.from_iterable(self._parts)

    @overload
    def __getitem__(self, at: int) -> Measured: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Measured]: ...
    def __getitem__(self, at: int | slice) -> Measured | Sequence[Measured]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(self._length))]
        if not -self._length <= at < self._length:
            raise IndexError(at)
        at %= self._length
        part = bisect.bisect_right(self._starts, at) - 1
        return self._parts[part][at - self._starts[part]]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All that was judged. Groups are sorted, worst first."""

    baseline: str
    stacks: tuple[Stack, ...]  #: in version order
    names: dict[str, str]  #: stack id -> short name
    cells: Cells  #: what was judged: the newest result of each cell
    groups: tuple[Group, ...]
    small: tuple[Finding, ...]  #: what is below the thresholds, as far as it is listed
    small_differences: int  #: exact differences below the thresholds that were counted, not listed
    not_compared: tuple[NotCompared, ...]
    step_times: tuple[StepTime, ...]
    control: tuple[StepTime, ...]
    spans: tuple[Span, ...]
    notes: tuple[str, ...]
    passed: int
    ended: dict[str, dict[str, Outcome]]  #: workload -> stack id -> how its cell ended, of those that did not pass
    compared: int  #: cells, without the baseline's, that were compared with the baseline's
    ran: int

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the groups in their order, then what is below the thresholds."""
        return (*(found for group in self.groups for found in group.findings), *self.small)
