"""Commands that leave nothing running when they, or this process, have ended: each runs under a keeper
(`dsregress.system.keeper`), and only there.

On Linux that holds for all processes that they start, and however this process ends. Elsewhere it holds for their process
group.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dsregress.probe.border import processes
from vgpu import process_control

#: The environment variable that marks a command and all that it starts: the folder that it was started in.
MARK = "DSREGRESS_STARTED_IN"

#: Seconds that a keeper may take to end a command and all that it started. It takes milliseconds.
_ENDING_S = 15.0

#: Seconds that it may take to start one, which is a small Python: a machine that is short of memory can stall.
_STARTING_S = 60.0

#: The folders of the packages that the keeper imports: one, or on a node of a Ray cluster one for each package.
_SOURCES = os.pathsep.join(
    dict.fromkeys(str(Path(file).resolve().parents[up]) for file, up in ((__file__, 2), (process_control.__file__, 1)))
)
#: Isolated and without site-packages: half the time to start, and nothing of the command's settings reaches it.
_KEEPER = (
    "import os, sys; sys.path[:0] = sys.argv[1].split(os.pathsep); from dsregress.system.keeper import keep_command; "
    "keep_command(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])"
)


class _Spawner:
    """Starts every keeper. The kernel reports the end of a process's parent when the *thread* ends that started it
    (prctl(2), PR_SET_PDEATHSIG). The thread that needs it first may end sooner; this one lives as long as we do."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)  # a fork has no such thread

    def _renew(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process as `subprocess.Popen` does."""

        def popen() -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, **options)

        return self._thread.submit(popen).result()


_spawner = _Spawner()


class Kept:
    """A command under its keeper. ``process`` is the keeper's; its pipes are the command's."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: str,
        environment: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: object,
    ) -> None:
        """Start the command in ``folder``, with this environment alone. ``stdin``, ``stdout`` and ``stderr`` are those of
        `subprocess.Popen`. Raise OSError, or TimeoutError if the machine is too busy to start it."""
        self._folder = folder
        self._control, theirs = socket.socketpair()
        self._read = b""
        self.interrupted = False
        self._received: dict[str, Any] = {}
        with theirs:
            words = [_SOURCES, str(os.getpid()), str(theirs.fileno()), *command]
            self.process = _spawner.start(
                [sys.executable, "-I", "-S", "-c", _KEEPER, *words],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                bufsize=0,
                cwd=folder,
                env={**environment, MARK: folder},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        in_time = self._hears("pid", "errno", _STARTING_S)
        if "pid" not in self._received:
            self.end()
            _close_pipes(self.process)
            if not in_time:
                raise TimeoutError(errno.ETIMEDOUT, f"not in {_STARTING_S:.0f} s", command[0])
            number = self._received.get("errno", 0)
            raise OSError(number, os.strerror(number) if number else "its keeper process did not start", command[0])

    def ends_within(self, seconds: float) -> bool:
        """Return True if the command ends by itself in that time."""
        return self._hears("status", "left", seconds)

    def interrupt(self) -> None:
        """End all without waiting, from any thread."""
        self.interrupted = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self.process.terminate()

    def end(self) -> dict[str, int]:
        """End all that still runs, and wait until it has. Return the processes that the command had started and left: name
        -> count."""
        self.interrupt()
        try:
            self.process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._hears("left", "errno", 0.0)
        self._control.close()
        if "left" in self._received:
            return dict(self._received["left"])
        if "errno" in self._received:
            return {}
        return end_marked(self._folder)  # its keeper was killed

    @property
    def code(self) -> int:
        """The command's exit code, once it has ended; negative for a signal."""
        status = self._received.get("status", self.process.returncode)
        return int(status) if status is not None else -9

    @property
    def by_itself(self) -> bool:
        """True if it ended before it was ended here."""
        return "status" in self._received or "left" not in self._received

    def _hears(self, what: str, or_what: str, timeout_s: float) -> bool:
        """Return True if the keeper reports one of these, or is gone, in that time."""
        deadline = time.monotonic() + timeout_s
        while what not in self._received and or_what not in self._received:
            self._control.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                more = self._control.recv(65536)
            except TimeoutError:
                return False
            except OSError:
                more = b""
            if not more:
                return True
            *lines, self._read = (self._read + more).split(b"\n")
            for line in lines:
                self._received.update(json.loads(line))
        return True


class Together:
    """Commands that run at the same time, and are ended together."""

    def __init__(self) -> None:
        self._commands: list[Kept] = []
        self._are_ended = False

    def add(self, command: Kept) -> None:
        """Add a command, from any thread; one that is added after `interrupt` is ended at once."""
        self._commands.append(command)
        if self._are_ended:
            command.interrupt()

    def interrupt(self) -> None:
        """End all without waiting, from any thread."""
        self._are_ended = True
        for command in list(self._commands):
            command.interrupt()


def run_kept(
    command: Sequence[str],
    *,
    folder: str,
    environment: Mapping[str, str],
    timeout_s: float,
    started: Callable[[Kept], None] = lambda command: None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as `subprocess.run` does, without input, and return its output. All that the command started has ended.
    ``started`` gets the running command, so that another thread can interrupt it.

    Raise OSError, `subprocess.TimeoutExpired`.
    """
    pipe = subprocess.PIPE
    kept = Kept(command, folder=folder, environment=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    try:
        started(kept)
        out, err = kept.process.communicate(timeout=timeout_s)
    finally:
        kept.end()
        _close_pipes(kept.process)
    return subprocess.CompletedProcess(command, kept.code, out, err)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for end in (process.stdin, process.stdout, process.stderr):
        if end is not None:
            end.close()


def sees_processes() -> bool:
    """Return True if the processes that a command has started can be found: not if ``/proc`` is absent or hidden."""
    return os.path.exists("/proc/self/stat")


def end_marked(folder: str) -> dict[str, int]:
    """End processes that are left of commands started in a folder or below it: for the case that the keeper was killed, or
    both it and the run were. Return name -> count."""
    return processes.end_marked(MARK, lambda value: Path(value).is_relative_to(folder))
