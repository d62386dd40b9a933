"""The progress of a run, as its observer receives it: a display, a log, or a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dsregress.launch import schedule
from dsregress.model import Cell, Environment, Stack


class Watch(Protocol):
    """Follows the progress of a run. Methods may be called from other threads."""

    def building(self, stack: Stack, state: str, environment: Environment | None) -> None:
        """Report the state of an environment: ``started``, ``waiting`` (another run is building it) or ``done``."""

    def measuring(self, cells: Sequence[Cell], reused: int, expected_s: Mapping[str, float]) -> None:
        """Report the cells that will be run; ``expected_s`` maps workloads to seconds, as far as they are known."""

    def event(self, event: schedule.Event) -> None:
        """Report that a cell has started, is about to run a timed round, or has ended."""

    def note(self, line: str) -> None:
        """Report a line for the user."""
