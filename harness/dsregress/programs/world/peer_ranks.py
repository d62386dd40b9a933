"""Additional ranks, simulated for what they send.

A pipeline stage allocates by shapes that the stage before it sends; what a rank receives is unknown to a simulation of
this rank alone. So when it receives integers, the sender is simulated too: in a process of its own, from the program's
first line, without measuring it. That process may need another one in turn.

Processes are forked from one that was forked before the program began, the *starter*; messages are files in a folder
that all ranks of a run share. Sending never waits.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch

from dsregress.probe.border.faults import signature_of
from vgpu import process_control
from vgpu.sim.errors import SimulationError, caller, location
from vgpu.whole_files import write_whole

#: Name of the folder in that of a run.
NAME = "messages"

_POLL_S = 0.02


def make_messages_folder(run: Path, measured: Iterable[int]) -> None:
    """Make the folder in that of a run, whose ``measured`` ranks need no further process."""
    folder = run / NAME
    folder.mkdir()
    for rank in measured:
        (folder / f"started-{rank}").touch()


class FileMessages:
    """Implements `vgpu.sim.following.Messages` for one rank, which sends nothing after the block."""

    def __init__(self, folder: Path, rank: int, start: Callable[[int], None]) -> None:
        self._folder, self._rank, self._start = folder, rank, start
        self._counts: Counter[tuple[int, int]] = Counter()

    def __enter__(self) -> FileMessages:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        why = "nothing more" if error is None else f"nothing ({signature_of(error)})"
        write_whole(self._folder / f"ended-{self._rank}", why)

    def send(self, contents: torch.Tensor | None, to: int) -> None:
        write_whole(self._file(self._rank, to), json.dumps(None if contents is None else contents.flatten().tolist()))

    def receive(self, like: torch.Tensor, of: int) -> torch.Tensor | None:
        file, ended = self._file(of, self._rank), self._folder / f"ended-{of}"
        try:
            (self._folder / f"started-{of}").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            self._start(of)
        while not file.exists():
            if ended.exists() and not file.exists():
                raise SimulationError(
                    f"rank {self._rank} receives {ended.read_text()} from rank {of}. At {location(caller())}"
                )
            time.sleep(_POLL_S)
        contents = json.loads(file.read_text())
        return None if contents is None else torch.tensor(contents, dtype=like.dtype, device="cpu")

    def _file(self, source: int, target: int) -> Path:
        self._counts[source, target] += 1
        return self._folder / f"{source}-{target}-{self._counts[source, target]}"


@contextlib.contextmanager
def peer_messages(folder: Path, rank: int, run: Callable[[int, FileMessages], None]) -> Iterator[FileMessages]:
    """Yield the messages of a rank, in the ``folder`` that `make_messages_folder` made. ``run`` is called in the process of
    each additional rank that is simulated. All of these processes end with the block."""
    requests, alive = os.pipe(), os.pipe()
    parent = os.getpid()
    starter = os.fork()
    if not starter:
        try:
            process_control.die_with_parent(parent)
            os.close(alive[1])
            _start_ranks(folder, requests, alive[0], run)
        finally:
            os._exit(0)
    os.close(requests[0])
    os.close(alive[0])
    try:
        with FileMessages(folder, rank, _starting(requests[1])) as messages:
            yield messages
    finally:
        with contextlib.suppress(BrokenPipeError):
            os.write(alive[1], b".")  # closing it does not suffice while a process that the program forked has it, too
        os.close(alive[1])
        os.close(requests[1])
        os.waitpid(starter, 0)


def _starting(pipe: int) -> Callable[[int], None]:
    def start(rank: int) -> None:
        os.write(pipe, f"{rank}\n".encode())

    return start


def _start_ranks(folder: Path, requests: tuple[int, int], alive: int, run: Callable[[int, FileMessages], None]) -> None:
    """Run the starter's loop; return when the process that needs the ranks has ended."""
    children: list[int] = []
    parent = os.getpid()
    while alive not in select.select([requests[0], alive], [], [])[0]:
        for line in os.read(requests[0], 4096).split():
            child = os.fork()
            if child:
                children.append(child)
                continue
            try:
                process_control.die_with_parent(parent)
                _run_besides(folder, int(line), _starting(requests[1]), run)
            finally:
                os._exit(0)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _run_besides(
    folder: Path, rank: int, start: Callable[[int], None], run: Callable[[int, FileMessages], None]
) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    with (
        contextlib.suppress(BaseException),  # a rank besides is measured by nobody, and its fork ends here in any case
        FileMessages(folder, rank, start) as messages,
    ):
        run(rank, messages)
