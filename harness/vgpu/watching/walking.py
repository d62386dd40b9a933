"""The phases of a program while it runs: one at a time, each until the next one begins. Standard library only."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from vgpu.watching.metered_phases import Phase, PhaseMeter


class PhaseWalk:
    """Enters and leaves phases, from `begin` to `end`. ``phases`` measures them, and may be replaced between two.
    ``announce`` is called with each phase that begins, so that a crash has a stage."""

    def __init__(self, meter: PhaseMeter, phases: Phase, announce: Callable[[str], None]) -> None:
        self.phases = phases
        self.name = ""  #: of the open phase; "" if none is open
        self._announce = announce
        self._meter = meter
        self._metering = contextlib.ExitStack()
        self._open: AbstractContextManager[None] = contextlib.nullcontext()
        self._began = 0.0

    def begin(self) -> None:
        """Start the meter, and enter *init*: the program's first line is next."""
        self._began = time.perf_counter()
        self._metering.enter_context(self._meter)
        self.enter("init")

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since `begin`."""
        return time.perf_counter() - self._began

    def enter(self, name: str, *, announced: bool = True) -> None:
        """Leave the open phase for this one."""
        self.leave()
        self.name = name
        if announced:
            self._announce(name)
        self._open = self.phases(name)
        self._open.__enter__()

    def leave(self, error: BaseException | None = None) -> None:
        """Leave the open phase, if there is one. ``error`` is what ended it: then it has no reading."""
        opened, self._open, self.name = self._open, contextlib.nullcontext(), ""
        opened.__exit__(*_parts(error))

    def stop_metering(self) -> None:
        """Stop the meter. Phases may follow that something else measures."""
        self._metering.close()

    def end(self, *, drop: bool = False) -> None:
        """Leave the open phase and stop the meter: the program has ended or is about to. An exception that is being
        handled is what ended it. With ``drop``, the phase has no reading."""
        error = sys.exc_info()[1]
        self.leave(error or (_Dropped() if drop else None))
        self._metering.__exit__(*_parts(error))


class _Dropped(BaseException):
    """Ends a phase without a reading."""


def _parts(error: BaseException | None) -> tuple[Any, BaseException | None, Any]:
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)
