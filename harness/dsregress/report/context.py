"""Facts about a comparison that all reports need, computed once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from dsregress.advice.card_rooms import CardRooms
from dsregress.advice.known_problems import KnownProblems
from dsregress.compare import Comparison, StepTime, Thresholds
from dsregress.model import Stack
from dsregress.report.known_answers import NOTHING_KNOWN, KnownAnswers
from dsregress.wording.names import varied_axes, version_of


class ReportContext(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison with what follows from it, and with what a reader asked for."""

    comparison: Comparison
    axes: tuple[str, ...]  #: the packages that vary
    stacks: Mapping[str, Stack]  #: by id, in version order
    order: Mapping[str, int]  #: stack id -> its place among the stacks
    baseline: str  #: the name of the baseline
    step_times: Mapping[str, Mapping[str, StepTime]]  #: by workload and stack
    rooms: CardRooms
    thresholds: Thresholds
    known: KnownAnswers
    knowledge: KnownProblems
    exit_code: int | None  #: of the command; None if it has none

    def times_of(self, workload: str) -> Mapping[str, StepTime]:
        """Return the step times of a workload, by stack."""
        return self.step_times.get(workload, {})

    @property
    def only_axis(self) -> str:
        """The package that varies; empty if several do, or none."""
        return self.axes[0] if len(self.axes) == 1 else ""

    def name_of(self, stack: str) -> str:
        """Return the short name of a stack, or its id if the comparison has no such stack."""
        return self.comparison.names.get(stack, stack)

    def name_beside(self, stack: str, other: str) -> str:
        """Return the name of a stack in contrast to another one; if several packages vary, those in which the two differ."""
        own, beside = self.stacks[stack], self.stacks[other]
        if own.existed or beside.existed or len(self.axes) < 2:
            return self.name_of(stack)
        differing = [axis for axis in varied_axes([own, beside]) if version_of(own, axis)]
        return " ".join(f"{axis} {version_of(own, axis)}" for axis in differing) or self.name_of(stack)


def report_context(
    comparison: Comparison,
    thresholds: Thresholds = Thresholds(),  # noqa: B008 -- it is frozen
    *,
    known: KnownAnswers = NOTHING_KNOWN,
    exit_code: int | None = None,
) -> ReportContext:
    """Return the context of a comparison's reports. ``known`` are answers to join with its problems."""
    times: dict[str, dict[str, StepTime]] = defaultdict(dict)
    for time in comparison.step_times:
        times[time.workload][time.stack] = time
    return ReportContext(
        comparison=comparison,
        axes=varied_axes(comparison.stacks),
        stacks=dict(zip(comparison.names, comparison.stacks, strict=True)),  # an id takes a while to make
        order={stack: at for at, stack in enumerate(comparison.names)},
        baseline=comparison.names.get(comparison.baseline, comparison.baseline),
        step_times=times,
        rooms=CardRooms(comparison),
        thresholds=thresholds,
        known=known,
        knowledge=KnownProblems(comparison),
        exit_code=exit_code,
    )
