"""Runs a program again on all ranks of a cell, each time from its first line, in separate processes.

Each rank has a process that was forked before the program began, the *starter*, which forks one for each repeat. Rank 0
says what is repeated (an *order*), in a file that the others wait for. A repeat has a folder of its own in the run's,
with its own copy of the program's files, which rank 0's starter makes, and its own rendezvous port. It leaves files
there; an error in it is one line.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dsregress.probe.border import logs
from dsregress.probe.border.faults import signal_signature, signature_of
from dsregress.probe.border.own_faults import own_fault
from dsregress.probe.border.ports import held_port
from dsregress.probe.harness_fault import HarnessFault
from vgpu import process_control
from vgpu.no_stand_in import NoStandInError
from vgpu.whole_files import write_whole

#: Name of the folder in that of a run.
NAME = "repeats"

#: File in the folder of a repeat: the error of the harness's own that ended it.
_BROKEN = "broken"

#: Exit status of a repeat that did all that was ordered. A program has other reasons for its own.
_DONE = 113

#: Interval at which a rank looks for the next order, and a starter for the end of its repeat.
_POLL_S = 0.05
#: Interval at which a waiting rank gives a sign of life.
_BEAT_S = 5.0
#: How long the other ranks of a repeat may go on once one of them has failed.
_GRACE_S = 1.0

#: Runs the program in the process of a repeat, in its folder: (order, rank).
Run = Callable[[Mapping[str, Any], int], None]

#: Makes the program's workplace in the folder of a repeat.
Place = Callable[[Path], None]

#: File in the folder of a repeat: the program can work there.
_PLACED = "placed"


class RepeatFailed(Exception):
    """A repeat failed; one line says how."""


class Repeats:
    """Repeats of one rank."""

    def __init__(self, run: Path, rank: int, starter: socket.socket, beat: Callable[[], None]) -> None:
        self._folder, self._rank = run / NAME, rank
        self._starter, self._beat = starter, beat
        self._count = 0

    def order(self, limit_s: float, **what: object) -> Path:
        """Make all ranks repeat the program, for at most so many seconds, and return the folder of the repeat. Called by
        rank 0.

        Raise RepeatFailed if the repeat fails, and HarnessFault if the replacement of DeepSpeed in it is broken.
        """
        self._folder.mkdir(exist_ok=True)
        folder = self._folder / str(self._count)
        folder.mkdir()
        with held_port() as port:
            write_whole(self._file(), json.dumps({**what, "limit_s": limit_s, "port": port}))
            self._carry_out()
        if (folder / _BROKEN).exists():
            raise HarnessFault(f"the numerics oracle broke in a repeat: {(folder / _BROKEN).read_text()}")
        if (folder / "failed").exists():
            raise RepeatFailed((folder / "failed").read_text())
        return folder

    def end(self) -> None:
        """End the orders. Called by rank 0."""
        self._folder.mkdir(exist_ok=True)
        write_whole(self._file(), "null")

    def follow(self) -> None:
        """Carry out all orders. Called by the other ranks."""
        while True:
            while not self._file().exists():
                time.sleep(_POLL_S)
            if json.loads(self._file().read_text()) is None:
                return
            self._carry_out()

    def _file(self) -> Path:
        return self._folder / f"order-{self._count}.json"

    def _carry_out(self) -> None:
        self._starter.sendall(f"{self._count}\n".encode())
        self._count += 1
        while not select.select([self._starter], [], [], _BEAT_S)[0]:
            self._beat()
        self._starter.recv(1)
        self._beat()


@contextlib.contextmanager
def repeats_of_rank(run: Path, rank: int, body: Run, place: Place, beat: Callable[[], None]) -> Iterator[Repeats]:
    """Yield the repeats of a rank. Begin the block before the program begins and before the rank enters its workplace.
    ``run`` is the run's folder. All processes end with the block."""
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    starter = os.fork()
    if not starter:
        try:
            process_control.die_with_parent(parent)
            ours.close()
            _serve(run / NAME, rank, theirs, body, place)
        finally:
            os._exit(0)
    theirs.close()
    try:
        yield Repeats(run, rank, ours, beat)
    finally:
        with contextlib.suppress(OSError):  # it has ended
            ours.shutdown(
                socket.SHUT_RDWR
            )  # closing it says nothing while a process that the program forked has it, too
        ours.close()
        os.waitpid(starter, 0)


def _serve(folder: Path, rank: int, rank_process: socket.socket, body: Run, place: Place) -> None:
    """Run the starter's loop; return when its rank has ended."""
    while number := rank_process.recv(64).strip():
        order = json.loads((folder / f"order-{int(number)}.json").read_text())
        here = folder / str(int(number))
        if rank == 0:
            _make_place(here, place)
        _repeat(here, order, rank, body)
        rank_process.sendall(b".")


def _make_place(folder: Path, place: Place) -> None:
    try:
        place(folder)
    except Exception as error:  # whatever it is, the ranks must not wait for it
        _fail(folder / "failed", signature_of(error))
    (folder / _PLACED).touch()


def _repeat(folder: Path, order: Mapping[str, Any], rank: int, body: Run) -> None:
    parent = os.getpid()
    child = os.fork()
    if not child:
        try:
            process_control.die_with_parent(parent)
            _run(folder, order, rank, body)
            os._exit(_DONE)
        finally:
            os._exit(0)
    deadline, failed = time.monotonic() + order["limit_s"], folder / "failed"
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            if os.WIFSIGNALED(status):
                _fail(failed, signal_signature(os.WTERMSIG(status)))
            elif os.WEXITSTATUS(status) != _DONE:  # os._exit, too
                _fail(failed, "it ended")
            return
        if failed.exists():
            deadline = min(deadline, time.monotonic() + _GRACE_S)
        if time.monotonic() > deadline:
            _fail(failed, f"it was not done after {order['limit_s']:.0f} s")
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return
        time.sleep(_POLL_S)


def _run(folder: Path, order: Mapping[str, object], rank: int, body: Run) -> None:
    log = logs.open_log(folder / f"rank-{rank}.log")
    for stream in (1, 2):
        os.dup2(log, stream)
    with contextlib.suppress(OSError):  # if memory runs out, a repeat is killed first, not the measured process
        Path("/proc/self/oom_score_adj").write_text("1000")
    os.environ.update(MASTER_PORT=str(order["port"]), DSREGRESS_RENDEZVOUS=f"file://{folder}/rendezvous")
    os.chdir(folder)
    try:
        while not (folder / _PLACED).exists():
            time.sleep(_POLL_S)
        body(order, rank)
    except BaseException as error:  # recorded for the rank that waits, and raised again
        own = own_fault(error)
        if own is not None and not isinstance(own.error, NoStandInError):
            _fail(folder / _BROKEN, signature_of(error))
        _fail(folder / "failed", signature_of(error))
        raise


def _fail(file: Path, why: str) -> None:
    """Write the reason unless one exists: the first counts, because one rank's end makes the others fail."""
    with contextlib.suppress(FileExistsError), open(file, "x", encoding="utf-8") as opened:
        opened.write(why)
