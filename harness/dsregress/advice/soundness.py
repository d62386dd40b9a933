"""Soundness: a release trains a workload correctly, to the end, on its card. The only rule by which advice names a release
to use. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from dsregress.advice.card_rooms import CardRooms
from dsregress.compare import Comparison, ResultSummary
from dsregress.compare.comparison import EVERYTHING
from dsregress.model import Finding, Passed, is_measurement
from dsregress.wording.names import outcome_text


class Soundness:
    """A comparison, looked up by stack and workload. ``speaks_against`` selects the findings that rule a release out."""

    def __init__(self, comparison: Comparison, rooms: CardRooms, speaks_against: Callable[[Finding], bool]) -> None:
        self._comparison = comparison
        self._rooms = rooms
        self._without_figures = {(one.stack, one.workload) for one in comparison.not_measured}
        self._findings: dict[tuple[str, str], list[Finding]] = defaultdict(list)
        for group in comparison.groups:
            if any(map(speaks_against, group.findings)):
                self._findings[group.headline.stack, group.headline.workload].append(group.headline)
        self._reasons = {
            (one.stack, one.workload): one.reason for one in comparison.not_compared if one.what == EVERYTHING
        }

    def findings(self, stack: str, workload: str) -> list[Finding]:
        """Return the findings that rule a cell out, worst first."""
        return self._findings.get((stack, workload), [])

    def unknown(self, cell: ResultSummary) -> str:
        """Return why a cell has no verdict; empty if it has one."""
        stack, workload = cell.result.cell.stack.id, cell.result.cell.workload
        return self._unjudged(stack, workload) or (
            ""
            if isinstance(cell.result.outcome, Passed) or self.findings(stack, workload)
            else outcome_text(cell.result.outcome)
        )

    def is_sound(self, stack: str, workload: str) -> bool:
        """Return True if a cell ran to the end and was judged, nothing rules it out, and it has room."""
        if stack not in self._comparison.cells.stacks_of(workload) or not self._has_passed(stack, workload):
            return False
        if self._unjudged(stack, workload) or self.findings(stack, workload):
            return False
        return self.has_room(stack, workload)

    def has_room(self, stack: str, workload: str) -> bool:
        """Return True unless a cell is too large for the card that it names, and the baseline's is not."""
        room = self._rooms.of(stack, workload)
        return room is None or not room.is_too_large

    def _unjudged(self, stack: str, workload: str) -> str:
        """Return why a cell was not judged; empty if it was. A run to the end needs no comparison if the baseline fails: it
        cannot be worse, and the oracles judge it without the baseline's."""
        base = self._comparison.ended.get(workload, {}).get(self._comparison.baseline)
        measured = self._has_passed(stack, workload) and (stack, workload) not in self._without_figures
        if base is not None and is_measurement(base) and measured:
            return ""
        return self._reasons.get((stack, workload), "")

    def _has_passed(self, stack: str, workload: str) -> bool:
        return isinstance(self._comparison.ended.get(workload, {}).get(stack, Passed()), Passed)

    def first(self, stacks: Iterable[str], workloads: Collection[str]) -> str:
        """Return the id of the first stack that is sound on each workload that it was measured on; empty if none is."""
        for stack in stacks:
            measured = [workload for workload in workloads if stack in self._comparison.cells.stacks_of(workload)]
            if measured and all(self.is_sound(stack, workload) for workload in measured):
                return stack
        return ""
