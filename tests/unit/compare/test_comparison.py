"""The cells of a comparison, which are read when a report shows them."""

from __future__ import annotations

import pytest

from dsregress.compare import ResultIndex, ResultSummary, summarize
from dsregress.compare.comparison import Cells
from dsregress.errors import ResultsError
from tests.builders.synthetic import result

BASE, NEWER = result("0.15.0"), result("0.16.4")
WORKLOAD = BASE.cell.workload
INDEX = ResultIndex([BASE, NEWER], BASE.cell.stack.id)
STACKS = [BASE.cell.stack.id, NEWER.cell.stack.id]


def test_a_cell_is_read_when_it_is_needed() -> None:
    read_stacks: list[str | None] = []

    def read(workload: str, stack: str | None) -> dict[str, ResultSummary]:
        read_stacks.append(stack)
        return INDEX.read(workload, stack)

    cells = Cells({WORKLOAD: STACKS}, read)
    assert (len(cells), list(cells.stacks_of(WORKLOAD))) == (2, STACKS)
    assert read_stacks == []
    assert cells.of(STACKS[1], WORKLOAD) == summarize(NEWER)
    assert cells.of("another", WORKLOAD) is None
    assert read_stacks == [STACKS[1]]
    assert list(cells) == [summarize(BASE), summarize(NEWER)]
    assert cells.of(STACKS[0], WORKLOAD) == summarize(BASE)  # the workload's cells are still there
    assert read_stacks == [STACKS[1], None]


def test_a_result_that_has_gone_since_is_an_error() -> None:
    cells = Cells({WORKLOAD: [*STACKS, "gone"]}, INDEX.read)
    with pytest.raises(ResultsError, match="gone since it was compared; run this again"):
        cells.of_workload(WORKLOAD)
