"""The number of timed rounds of cells: fixed, or until a verdict on them is reached, within a time budget.

The time of the budget is shared by the sessions that are still to come; a session's unused time goes to the others. Each has
the rounds of the first look, however long they take. Stopping early changes no verdict: `dsregress.compare.statistics`
allows for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence

from dsregress.compare.step_times import decided
from dsregress.config.settings import Settings
from dsregress.config.thresholds import LOOKS, Thresholds
from dsregress.launch.contract import RunPlan


def least_rounds(settings: Settings) -> int:
    """Return the least number of rounds of a timed cell; 0 if nothing is timed."""
    return LOOKS[0] if settings.rounds is None else settings.rounds


def run_plan(settings: Settings) -> RunPlan:
    """Return the plan of a timed cell."""
    rounds = LOOKS[-1] if settings.rounds is None else settings.rounds
    return RunPlan(warmup_rounds=settings.warmup_rounds, rounds=rounds)


class Budget:
    """See `dsregress.launch.schedule.Pace`. For sessions of many threads."""

    def __init__(self, budget_s: float, sessions: int, step_times: int, thresholds: Thresholds) -> None:
        """Take the budget of all sessions. ``step_times`` is the number of comparisons in the whole report."""
        self._left_s, self._sessions = budget_s, sessions
        self._step_times = step_times
        self._thresholds = thresholds
        self._lock = threading.Lock()

    def session(self) -> BudgetedTurns:
        """Return the turns of a session whose timed rounds begin."""
        with self._lock:
            share_s = self._left_s / max(1, self._sessions)
            self._left_s -= share_s
            self._sessions -= 1
        return BudgetedTurns(self, share_s)

    def give_back(self, seconds: float) -> None:
        """Return a session's unused time to the budget; negative if it took longer."""
        with self._lock:
            self._left_s = max(0.0, self._left_s + seconds)

    def decided(self, rounds: Mapping[str, Sequence[float]], baseline: Sequence[float]) -> set[str]:
        """Return the stacks that have a verdict by their rounds so far."""
        return decided(rounds, baseline, self._step_times, self._thresholds)


class BudgetedTurns:
    """The turns of one session: see `dsregress.launch.schedule.Turns`."""

    def __init__(self, budget: Budget, share_s: float) -> None:
        self._budget = budget
        self.share_s = share_s
        self._stopped: dict[str, Sequence[float]] = {}  #: the rounds of cells that are decided
        self._began = time.monotonic()

    def enough(self, baseline: str, rounds: Mapping[str, Sequence[float]]) -> Collection[str]:
        count = max(map(len, rounds.values()))
        if count < LOOKS[0]:
            return ()
        if time.monotonic() - self._began >= self.share_s:
            return tuple(rounds)
        if count not in LOOKS:
            return ()
        if baseline not in rounds:
            return tuple(rounds)
        others = {cell: seconds for cell, seconds in rounds.items() if cell != baseline}
        enough = self._budget.decided(self._stopped | others, rounds[baseline]) & others.keys()
        self._stopped |= {cell: others[cell] for cell in enough}
        return tuple(rounds) if len(enough) == len(others) else enough

    def end(self) -> None:
        self._budget.give_back(self.share_s - (time.monotonic() - self._began))
