"""What a run has found so far, told as soon as all releases of a workload have run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from dsregress.launch.schedule import Event, Finished
from dsregress.model import Cell, Environment, Stack
from dsregress.run.watch import Watch

#: Lines of one run.
_MOST_LINES = 12


class InterimFindings:
    """A watch that adds ``so far: ...`` to the notes of another. ``problem_lines`` gets the cells of a workload that has
    run, those that were reused among them. Each line is said once."""

    def __init__(
        self, watch: Watch, cells: Sequence[Cell], problem_lines: Callable[[Sequence[Cell]], Sequence[str]]
    ) -> None:
        self._watch = watch
        self._problem_lines = problem_lines
        self._cells: dict[str, list[Cell]] = {}
        for cell in cells:
            self._cells.setdefault(cell.workload, []).append(cell)
        self._unbuilt: set[str] = set()  #: ids of stacks whose cells do not run
        self._left: dict[str, set[str]] = {}
        self._said: set[str] = set()
        self._lock = threading.Lock()

    def building(self, stack: Stack, state: str, environment: Environment | None) -> None:
        """Report the state of an environment."""
        if environment is not None and environment.failure is not None:
            self._unbuilt.add(stack.id)
        self._watch.building(stack, state, environment)

    def measuring(self, cells: Sequence[Cell], reused: int, expected_s: Mapping[str, float]) -> None:
        """Report the cells that will be run."""
        self._left = {}
        for cell in cells:
            if cell.environment_stack.id not in self._unbuilt:
                self._left.setdefault(cell.workload, set()).add(cell.id)
        self._watch.measuring(cells, reused, expected_s)

    def event(self, event: Event) -> None:
        """Report an event of a cell and, if it is the last one of its workload, what the workload shows."""
        self._watch.event(event)
        if isinstance(event, Finished):
            with self._lock:
                if self._is_last(event.cell):
                    self._tell(event.cell.workload)

    def note(self, line: str) -> None:
        """Report a line for the user."""
        self._watch.note(line)

    def _is_last(self, cell: Cell) -> bool:
        """Return True for the last cell of its workload, but for that of the whole run: its report follows."""
        left = self._left.get(cell.workload, set())
        left.discard(cell.id)
        if left:
            return False
        self._left.pop(cell.workload, None)
        return bool(self._left)

    def _tell(self, workload: str) -> None:
        for line in self._problem_lines(self._cells.get(workload, [])):
            if line not in self._said and len(self._said) < _MOST_LINES:
                self._said.add(line)
                self._watch.note(f"so far: {line}")
