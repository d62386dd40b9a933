"""Progress of a run: a live display on a terminal, a line per event in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean
from types import TracebackType
from typing import final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dsregress.cli import output
from dsregress.launch.schedule import Event, Finished, Rerun, RoundStarted, Started
from dsregress.model import Cell, Environment, Passed, Stack
from dsregress.report.plain_text import plain, plain_lines
from dsregress.run.decide import is_timed
from dsregress.run.eta import GUESSED_IMPORT_S
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import plural


class Estimate:
    """The estimated time of the remaining cells: their expected times, corrected by the times of finished ones. Cells
    without an expectation are expected to take as long as finished ones without an expectation. If the remaining cells have
    already taken longer than expected, the rest is unknown.

    Timed cells count by workload and not one by one: those of one workload are measured in turns, and end all together. An
    environment is imported for the first of its cells.
    """

    def __init__(self, cells: Sequence[Cell], expected_s: Mapping[str, float]) -> None:
        self._expected_s = {cell.id: expected_s.get(cell.workload) for cell in cells}
        self._imports_s = dict.fromkeys(self._expected_s, 0.0)
        first: dict[str, str] = {}
        for cell in sorted(cells, key=is_timed, reverse=True):  # timed cells run before the others
            first.setdefault(cell.environment_stack.id, cell.id)
        for cell_id in first.values():
            self._imports_s[cell_id] = GUESSED_IMPORT_S
        self._surprises_s: list[float] = []  #: what cells took of which nothing was known
        self._open: dict[str, set[str]] = {}
        for cell in cells:
            self._open.setdefault(cell.workload, set()).add(cell.id)
        self._waiting = set(self._expected_s)
        self._done: set[str] = set()
        self._pace = 1.0
        self._began = time.monotonic()

    def started(self, cell: Cell) -> None:
        """Count a cell as started."""
        self._waiting.discard(cell.id)

    def finished(self, cell: Cell, elapsed_s: float | None = None, *, took_s: float, passed: bool) -> None:
        """Count a cell as ended, ``elapsed_s`` after the beginning. A cell that failed may have ended at once, so its time
        does not inform the others."""
        if not passed:
            self._expected_s[cell.id], self._imports_s[cell.id] = took_s, 0.0
        elif self._expected_s[cell.id] is None:
            self._surprises_s.append(took_s)
        self._waiting.discard(cell.id)
        self._done.add(cell.id)
        others = self._open[cell.workload]
        others.discard(cell.id)
        done_s = self._sum_s(self._done)
        if done_s and not (others and is_timed(cell)):
            self._pace = self._elapsed(elapsed_s) / done_s

    def left_s(self, elapsed_s: float | None = None) -> float | None:
        """Return the seconds left; None if not known yet, or no longer."""
        if not any(self._open.values()):
            return 0.0
        total_s, waiting_s = self._sum_s(self._expected_s), self._sum_s(self._waiting)
        if total_s is None or waiting_s is None:
            return None
        left_s = max(total_s * self._pace - self._elapsed(elapsed_s), waiting_s * self._pace)
        return left_s if left_s >= 1.0 else None

    def _sum_s(self, cells: Iterable[str]) -> float | None:
        """Return the expected time of cells, by id, in seconds; None if not known yet."""
        surprise_s = mean(self._surprises_s) if self._surprises_s else None
        total_s = 0.0
        for one in cells:
            expected_s = self._expected_s[one]
            if expected_s is None:
                expected_s = surprise_s
            if expected_s is None:
                return None
            total_s += self._imports_s[one] + expected_s
        return total_s

    def _elapsed(self, given_s: float | None) -> float:
        return time.monotonic() - self._began if given_s is None else given_s


#: A silent log gets a line on the running work after this time, then after twice as long each time; and the interval of
#: these checks.
_SILENCE_S, _LOOK_S = 60.0, 5.0


@final
class Progress:
    """See `dsregress.run.watch.Watch`. Enter it around a run; ``brief`` leaves the lines about cells to the caller."""

    def __init__(self, console: Console | None = None, *, brief: bool = False) -> None:
        self._brief = brief
        self._console = console or output.console(stderr=True)
        self._is_live = self._console.is_terminal
        self._building: dict[str, float] = {}
        self._running: dict[str, tuple[Cell, str, float]] = {}
        self._total = self._done = 0
        self._estimate = Estimate((), {})
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True)
        self._said = time.monotonic()
        self._silence_s = _SILENCE_S
        self._is_over = threading.Event()
        self._all_stored = -1

    def __enter__(self) -> Progress:
        if self._is_live:
            self._live.start()
        else:
            threading.Thread(target=self._watch_silence, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._is_live:
            self._live.stop()

    def building(self, stack: Stack, state: str, environment: Environment | None) -> None:
        """Report the state of an environment that is built."""
        name = stack.label or stack.id
        if environment is None:
            self._building[name] = time.monotonic()
            if state == "waiting":
                self.note(f"environment {name}: another run is building it")
            return
        self._building.pop(name, None)
        if environment.failure is not None:
            self.note(f"environment {name}: {outcome_text(environment.failure)}")
        elif environment.build_s > 1:
            self.note(f"environment {name}: built in {environment.build_s:.0f} s")

    def measuring(self, cells: Sequence[Cell], reused: int, expected_s: Mapping[str, float]) -> None:
        """Report how many cells are to run, and how long they take."""
        self._total = self._done + len(cells)  # `fit` measures in several goes
        self._estimate = Estimate(cells, expected_s)
        if self._brief:
            return
        left = self._estimate.left_s()
        about = f", about {duration_text(left)}" if left else ""
        if cells:
            self.note(f"{plural(len(cells), 'cell')} to run{about}; {reused} are stored already")
        elif reused != self._all_stored:  # the same cells are looked up again
            self._all_stored = reused
            self.note(f"all {reused} stored")

    def event(self, event: Event) -> None:
        """Report an event of a cell."""
        cell = event.cell
        if isinstance(event, Started):
            self._estimate.started(cell)
            self._running[cell.id] = (cell, "untimed part", time.monotonic())
        elif isinstance(event, RoundStarted):
            self._running[cell.id] = (cell, f"round {event.number}", self._running[cell.id][2])
        elif isinstance(event, Rerun):
            self._running.pop(cell.id, None)
            self.note(f"{_cell_name(cell)}: its machine was lost; running again elsewhere ({event.why})")
        elif isinstance(event, Finished):
            self._running.pop(cell.id, None)
            self._done += 1
            passed = isinstance(event.ended.outcome, Passed)
            self._estimate.finished(cell, took_s=event.ended.duration_s, passed=passed)
            if not self._brief and (not self._is_live or not passed):
                left = self._estimate.left_s()
                about = f", {duration_text(left)} left" if left else ""
                text = outcome_text(event.ended.outcome)
                self.note(f"[{self._done}/{self._total}{about}] {_cell_name(cell)}: {text}")

    def note(self, line: str) -> None:
        """Report a line for the user."""
        self._said, self._silence_s = time.monotonic(), _SILENCE_S
        self._print(line)

    def break_silence(self, now: float) -> None:
        """Report the running work if the log has been silent for long. ``now``: as of `time.monotonic`."""
        if now - self._said < self._silence_s or not (running := self._under_way(now)):
            return
        self._said, self._silence_s = now, 2 * self._silence_s
        left = self._estimate.left_s() if self._total else None
        about = f"; {duration_text(left)} left" if left else ""
        self._print(f"still {'; '.join(f'{doing} {name}: {since}' for doing, name, since in running)}{about}")

    def _watch_silence(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            self.break_silence(time.monotonic())

    def _print(self, line: str) -> None:
        text = plain_lines(" ".join(line.splitlines()))
        if self._is_live:  # above the table
            self._console.print(Text(text), soft_wrap=True)
        else:  # rich prints a line again that Ctrl-C interrupted once it was written
            self._console.file.write(f"{text}\n")
            self._console.file.flush()

    def _under_way(self, now: float) -> list[tuple[str, str, str]]:
        """Return (activity, its object, its duration) of environments being built and of the cell that began last."""
        rows = [("building", name, f"{now - began:.0f} s") for name, began in list(self._building.items())]
        if running := list(self._running.values()):
            cell, what, began = running[-1]
            beside = f" (and {len(running) - 1} open beside it)" if len(running) > 1 else ""
            rows.append(("running", _cell_name(cell), f"{what}{beside}, {duration_text(now - began)}"))
        return rows

    def _render(self) -> Table:
        table = Table.grid(padding=(0, 1))
        for doing, name, since in self._under_way(time.monotonic()):
            table.add_row(doing, Text(plain(name)), since)
        if self._total:
            left = self._estimate.left_s()
            table.add_row(
                "done", f"{self._done} of {self._total} cells", "" if left is None else f"{duration_text(left)} left"
            )
        return table


class QuietWatch:
    """A watch that prints notes and nothing else."""

    def building(self, stack: Stack, state: str, environment: Environment | None) -> None:
        """Report nothing."""

    def measuring(self, cells: Sequence[Cell], reused: int, expected_s: Mapping[str, float]) -> None:
        """Report nothing."""

    def event(self, event: Event) -> None:
        """Report nothing."""

    def note(self, line: str) -> None:
        """Print a line to stderr."""
        print(plain(line), file=sys.stderr)


def duration_text(seconds: float) -> str:
    """Return ``40 s``, ``3 min 20 s``, ``1 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _cell_name(cell: Cell) -> str:
    return f"{cell.stack.label or cell.stack.id}  {cell.workload}"
