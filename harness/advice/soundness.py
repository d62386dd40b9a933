"""Which releases train a workload: right, to the end, on its card. The one rule behind advice to use a release. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from harness.advice import gpus
from harness.advice.capacity import OVERHEAD_BYTES, FitVerdict, compared_verdict
from harness.advice.gpus import Card
from harness.compare import Comparison, ResultSummary
from harness.compare.comparison import EVERYTHING
from harness.model import Finding, Passed
from harness.wording.names import outcome_text


class Soundness:
    """A comparison, looked up by stack and workload. ``speaks_against`` says which findings rule a release out."""

    def __init__(self, comparison: Comparison, speaks_against: Callable[[Finding], bool]) -> None:
        self._comparison = comparison
        self._findings: dict[tuple[str, str], list[Finding]] = defaultdict(list)
        for group in comparison.groups:
            if any(map(speaks_against, group.findings)):
                self._findings[group.headline.stack, group.headline.workload].append(group.headline)
        self._reasons = {
            (one.stack, one.workload): one.reason for one in comparison.not_compared if one.what == EVERYTHING
        }

    def findings(self, stack: str, workload: str) -> list[Finding]:
        """What speaks against a cell, worst first."""
        return self._findings.get((stack, workload), [])

    def unknown(self, cell: ResultSummary) -> str:
        """Why a cell says nothing; empty where it has a verdict."""
        stack, workload = cell.result.cell.stack.id, cell.result.cell.workload
        reason = self._reasons.get((stack, workload), "")
        return reason or (
            ""
            if isinstance(cell.result.outcome, Passed) or self.findings(stack, workload)
            else outcome_text(cell.result.outcome)
        )

    def is_sound(self, stack: str, workload: str) -> bool:
        """Whether a cell ran to the end, nothing speaks against it, and it fits the card that it names, unless the
        baseline's does not fit it either. The oracles judge a cell without the baseline's."""
        cell = self._comparison.cells.of(stack, workload)
        if cell is None or not cell.recorded or not isinstance(cell.result.outcome, Passed):
            return False
        return not self.findings(stack, workload) and (self._fits(cell) or not self._baseline_fits(workload))

    def _baseline_fits(self, workload: str) -> bool:
        base = self._comparison.cells.of(self._comparison.baseline, workload)
        return base is None or self._fits(base)

    def _fits(self, cell: ResultSummary) -> bool:
        """Where nothing can be said of a card, nothing speaks against it."""
        found = room(cell, named_card(cell))
        return found is None or found.fits

    def first(self, stacks: Iterable[str], workloads: Collection[str]) -> str:
        """The first of these stacks that is sound on each of the workloads that it was measured on; empty where none is."""
        for stack in stacks:
            measured = [workload for workload in workloads if stack in self._comparison.cells.stacks_of(workload)]
            if measured and all(self.is_sound(stack, workload) for workload in measured):
                return stack
        return ""


def named_card(cell: ResultSummary) -> Card | None:
    """The card of a simulated cell; None where its scenario names none."""
    name = cell.result.cell.parameters.get("gpu") if cell.result.cell.device == "sim" else None
    return gpus.card(str(name)) if name else None


def room(cell: ResultSummary, card: Card | None, overhead_bytes: int = OVERHEAD_BYTES) -> FitVerdict | None:
    """Whether a simulated cell fits a card; None where nothing can be said."""
    if card is None or cell.result.cell.device != "sim" or not isinstance(cell.result.outcome, Passed):
        return None
    return compared_verdict(cell, card, overhead_bytes)
