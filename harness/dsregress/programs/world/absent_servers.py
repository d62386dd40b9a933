"""Ends a program that keeps asking for a server on this machine that nothing has started.

Such a program catches each refused connection and tries again, for as long as it may stay silent. It is ended after a few
seconds in which it has computed nothing; if it has started processes, of which one may become the server, after a minute.
"""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from dsregress.probe.border import processes
from dsregress.programs.world.resource_errors import program_place

#: Refused connections in a row to one address, and the seconds that they last at least.
_MOST_REFUSED, _WAIT_S, _WAIT_FOR_PROCESSES_S = 4, 5.0, 60.0
#: Share of that time which a program that waits may compute.
_IDLE = 0.3
#: How long after a refused connection a program is ended that catches everything.
_LATER_S = 0.1
#: In the command of the process that Python starts beside others.
_OF_PYTHON = b"multiprocessing.resource_tracker"


class WaitsInVain(BaseException):
    """Ends a program that waits for a server. A BaseException, so that a program that catches Exception ends as well."""


@dataclasses.dataclass
class _Refused:
    """Connections to one address that were refused in a row."""

    since_s: float
    computed_s: float
    times: int = 0


class AbsentServers:
    """Counts the refused connections of the main thread by address."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, computed: Callable[[], float] = time.process_time
    ) -> None:
        self._clock, self._computed = clock, computed
        self._refused: dict[tuple[str, int], _Refused] = {}
        self._before = self._running()
        self._has_ended = False

    def connected(self, address: object) -> None:
        """Forget the refusals of an address that answers."""
        self._refused.pop(_host_and_port(address), None)

    def refused(self, address: object) -> None:
        """Count a refused connection. Raise WaitsInVain if the program does nothing but wait for that address."""
        if threading.current_thread() is not threading.main_thread():
            return
        now, computed = self._clock(), self._computed()
        host, port = _host_and_port(address)
        seen = self._refused.setdefault((host, port), _Refused(now, computed))
        seen.times += 1
        waited = now - seen.since_s
        if computed - seen.computed_s > max(_IDLE * waited, 1.0):
            self._refused[host, port] = _Refused(now, computed, 1)
        elif (
            seen.times >= _MOST_REFUSED
            and waited >= _WAIT_S
            and not (waited < _WAIT_FOR_PROCESSES_S and self._running() - self._before)
        ):
            self._end(
                f"{program_place()} waits for {host}:{port}, and the launch line starts no server there: leave out "
                "what asks it"
            )

    def _end(self, reason: str) -> None:
        """Raise WaitsInVain. If the program has caught the one before, as a bare ``except`` does, raise it once more a
        moment later: it sleeps elsewhere."""

        def again(*_: object) -> None:
            raise WaitsInVain(reason)

        if self._has_ended:
            signal.signal(signal.SIGALRM, again)
            signal.setitimer(signal.ITIMER_REAL, _LATER_S)
        self._has_ended = True
        raise WaitsInVain(reason)

    @staticmethod
    def _running() -> set[tuple[int, int]]:
        """Return the identities of the processes below this one that run, without Python's own."""
        running = (process for process in processes.descendants() if process.state not in "ZX")
        return {process.identity for process in running if _OF_PYTHON not in processes.command_of(process.pid)}


def _host_and_port(address: Any) -> tuple[str, int]:
    host = str(address[0])
    return "localhost" if host in ("127.0.0.1", "::1", "0.0.0.0", "") else host, int(address[1])
