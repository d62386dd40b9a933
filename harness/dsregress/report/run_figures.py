"""The figures of programs' runs, for a report without problems: what the rank holds, its peaks, and the room on its card.
Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dsregress.compare.metrics import DEVICE_PEAK, DEVICE_RETAINED
from dsregress.compare.result_summary import ResultSummary
from dsregress.compare.worst_readings import worst_rank
from dsregress.messages import Text, message
from dsregress.model import Passed, split_workload
from dsregress.probe.border.wire import REGULAR_PHASES
from dsregress.report.context import ReportContext
from dsregress.wording.quantities import listing, quantity
from dsregress.wording.workload_words import is_given_program

#: Programs whose figures are shown.
_MOST_PROGRAMS = 2


def program_figures(context: ReportContext) -> tuple[Text, ...]:
    """Return a sentence or two for each program, of the newest release that ran it to the end."""
    programs = [w for w in context.comparison.cells.workloads if is_given_program(split_workload(w).scenario)]
    return tuple(text for workload in programs[:_MOST_PROGRAMS] for text in _figures(context, workload))


def _figures(context: ReportContext, workload: str) -> Iterator[Text]:
    cells = context.comparison.cells.of_workload(workload)
    newest_first = [stack.id for stack in reversed(context.comparison.stacks)]
    passed = [one for one in newest_first if one in cells and isinstance(cells[one].result.outcome, Passed)]
    if not passed or (peaks := _peaks(cells[passed[0]])) is None:
        return
    held = worst_rank(cells[passed[0]].exact, DEVICE_RETAINED, "step")
    yield message(
        "{program} with {release}: {held} held after the step; peaks: {peaks}.",
        program=split_workload(workload).scenario,
        release=context.name_of(passed[0]),
        held=quantity(held.value, "bytes") if held is not None else "-",
        peaks=peaks,
    )
    room = context.rooms.of(passed[0], workload)
    if room is not None:
        yield message(
            "It needs {needed} of the {available} that {card} has for tensors.",
            needed=quantity(room.own.peak_bytes, "bytes"),
            available=quantity(room.own.available_bytes, "bytes"),
            card=room.card,
        )


def _peaks(cell: ResultSummary) -> str | None:
    found = [(phase, worst_rank(cell.exact, DEVICE_PEAK, phase)) for phase in REGULAR_PHASES]
    peaks = [f"{phase} {quantity(one.value, 'bytes')}" for phase, one in found if one is not None]
    return listing(peaks) if peaks else None
