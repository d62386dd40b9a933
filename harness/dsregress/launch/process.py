"""A child process that exchanges JSON lines over its stdin and stdout, and never outlives its deadline."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection
from typing import Any

from dsregress.system.kept import Kept

#: A longer line is not a message: something else writes into the pipe.
_LONGEST_LINE_BYTES = 1 << 20

#: Seconds that a process may take to exit once its stdin is closed.
_GRACE_S = 2.0


class Gone(Exception):
    """The process has ended, or its pipes are closed. ``how`` is one short line, the same for the same fault.

    ``out_of_memory``: the kernel killed it for exceeding its own memory limit.
    """

    def __init__(self, how: str, *, out_of_memory: bool = False) -> None:
        self.how = how
        self.out_of_memory = out_of_memory
        super().__init__(how)


class Hung(Exception):
    """No message came in time."""


class JsonLines:
    """Bytes in, messages out: one JSON object per line. Lines that are not JSON objects are skipped: frameworks print."""

    def __init__(self) -> None:
        self._read = bytearray()

    def feed(self, more: bytes) -> None:
        """Add bytes that were read."""
        self._read += more

    @property
    def garbage(self) -> bool:
        """True if a line is longer than any message."""
        return len(self._read) > _LONGEST_LINE_BYTES and b"\n" not in self._read

    def message(self) -> dict[str, object] | None:
        """Return the next message; None until one is complete."""
        while (end := self._read.find(b"\n")) >= 0:
            line = bytes(self._read[:end])
            del self._read[: end + 1]
            with contextlib.suppress(ValueError, RecursionError):
                message = json.loads(line)
                if isinstance(message, dict):
                    return message
        return None

    def wait(self, fill: Callable[[float], None], timeout_s: float) -> dict[str, Any]:
        """Return the next message. ``fill`` waits for bytes, at most as many seconds as given, and feeds them. Raise Hung,
        and what ``fill`` raises."""
        deadline = time.monotonic() + timeout_s
        while (message := self.message()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Hung
            fill(left)
        return message


class ServerProcess:
    """A child process under a keeper: no process that it started outlives it, or us."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: str, errors: str) -> None:
        """Start the process in ``folder``; its stderr is appended to the file ``errors``. Raise OSError."""
        with open(errors, "a+b") as log:
            pipe = subprocess.PIPE
            self._kept = Kept(command, folder=folder, environment=environment, stdin=pipe, stdout=pipe, stderr=log)
        assert self._kept.process.stdin
        assert self._kept.process.stdout
        self._stdin, self._stdout = self._kept.process.stdin, self._kept.process.stdout
        self._lines = JsonLines()
        self._ending = threading.Lock()
        self._how = ""
        self.left: dict[str, int] = {}  #: processes that it left running, once it has been killed: name -> count

    def send(self, message: Mapping[str, object]) -> None:
        """Send a message. Raise Gone."""
        try:
            self._stdin.write(json.dumps(message).encode() + b"\n")
        except (OSError, ValueError):  # ValueError: closed already
            raise Gone(self.kill(_GRACE_S)) from None

    def receive(self, timeout_s: float) -> dict[str, object]:
        """Return the next message. Raise Gone, Hung."""
        return self._lines.wait(self._fill, timeout_s)

    def interrupt(self) -> None:
        """Kill the process and all that it started without waiting, from any thread; `receive` then raises Gone."""
        self._kept.interrupt()

    def kill(self, grace_s: float = 0.0) -> str:
        """Kill the process and all that it started, at once or if it has not ended after ``grace_s``. Return how it ended.

        May be called twice, and by two threads at once: the one that runs a cell, and the one that ends the whole run.
        """
        with self._ending:
            if not self._how:
                if grace_s and not self._kept.interrupted:
                    self._close_stdin()
                    self._kept.ends_within(grace_s)
                self.left = self._kept.end()
                self._close_stdin()
                self._how = how_it_ended(self._kept.code) if self._kept.by_itself else "was killed by the harness"
                self._stdout.close()
            return self._how

    def close(self) -> None:
        """Let the process exit, else kill it; none of the processes that it started remains."""
        self.kill(_GRACE_S)

    def _close_stdin(self) -> None:
        with contextlib.suppress(OSError):
            self._stdin.close()

    def _fill(self, timeout_s: float) -> None:
        try:
            if not connection.wait([self._stdout.fileno()], timeout_s):
                return
            more = os.read(self._stdout.fileno(), 65536)
        except (OSError, ValueError):  # another thread has closed it
            more = b""
        if not more:
            raise Gone(self.kill(_GRACE_S))
        self._lines.feed(more)
        if self._lines.garbage:
            self.kill()
            raise Gone("was killed for writing garbage")


def how_it_ended(code: int) -> str:
    """Return words for an exit code, which is negative if a signal ended the process."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
