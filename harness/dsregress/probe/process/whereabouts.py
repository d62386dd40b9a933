"""Reports where the ranks of a silent cell are: Python's own stack of each, which `faulthandler` writes on a signal,
even while the process waits in C for a message of another rank. Ranks that hang usually wait for different
collectives, each for the other's."""

from __future__ import annotations

import contextlib
import faulthandler
import itertools
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from traceback import FrameSummary
from typing import IO

from dsregress.probe.border import processes
from dsregress.probe.border.encoding import bounded_text
from dsregress.probe.border.faults import MOST_WHEREABOUTS, WHEREABOUTS_LENGTH, stack_places
from dsregress.probe.border.own_code import FOLDERS
from dsregress.probe.border.wire import DEADLOCK_S

#: A signal that no program, launcher or scheduler uses, unlike SIGUSR1; macOS has no such signals.
_SIGNAL: int | None = getattr(signal, "SIGRTMAX", None)

#: How long a process may take to answer. It needs a millisecond, unless it is stopped.
_ANSWER_S = 1.0
_LOOK_S = 0.02

_MOST_BYTES = 1 << 20

#: How long ranks that seem to wait for one another are observed, and how much of that time they may compute: they check
#: whether they are still needed.
_BETWEEN_LOOKS_S = 5.0
_IDLE = 0.05

#: From this file outward, the frames of a rank are those of the process that forked it.
_FORKS_RANKS = "/dsregress/probe/process/ranks.py"

_FRAME = re.compile(r'^  File "([^"\n]+)", line (\d+) in (\S+)$', re.MULTILINE)
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+[^\n]*:$", re.MULTILINE)

#: torch's own functions for collectives, and the frames that may be between them and the wait.
_COLLECTIVES = ("/torch/distributed/distributed_c10d.py", "/torch/distributed/_functional_collectives.py")
_BENEATH = re.compile(
    r"^<|/site-packages/torch/|/lib/python[\d.]*/(?!site-packages|dist-packages)"
    + "".join(f"|^{re.escape(folder)}" for folder in FOLDERS)
)

#: (file, line, function), the innermost first.
_Stack = tuple[tuple[str, int, str], ...]

_answers: list[IO[bytes]] = []  # faulthandler keeps the descriptor alone


def report_stack_on_signal(folder: Path, rank: int) -> None:
    """Make this process report its stack on `whereabouts_of_ranks` from now on."""
    if _SIGNAL is None:
        return
    file = _stack_file(folder, rank).open("wb")
    _answers.append(file)
    faulthandler.register(_SIGNAL, file, all_threads=True)


def whereabouts_of_ranks(folder: Path, pids: Mapping[int, int]) -> tuple[str, ...]:
    """Return where ranks are, given the process of each, which has called `report_stack_on_signal`: lines such as
    ``ranks 0 and 2: deepspeed/comm/torch.py:all_gather_into_tensor, called by
    deepspeed/runtime/zero/partition_parameters.py:_dist_allgather_fn``. Ranks that do not answer are left out."""
    ranks_at: dict[str, list[int]] = {}
    for rank, stack in _stacks(folder, pids).items():
        ranks_at.setdefault(_described_stack(stack), []).append(rank)
    lines = [bounded_text(f"{_ranks_text(ranks)}: {place}", WHEREABOUTS_LENGTH) for place, ranks in ranks_at.items()]
    if len(lines) > MOST_WHEREABOUTS:
        lines = [*lines[: MOST_WHEREABOUTS - 1], f"{len(lines) - MOST_WHEREABOUTS + 1} more places"]
    return tuple(lines)


class DeadlockWatch:
    """Distinguishes ranks that wait for one another from ranks that are slow: every one is in a collective, at the same
    place as at the last look, and none has computed since."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.begin()

    def begin(self) -> None:
        """Begin anew after a sign of life."""
        self._before: tuple[dict[int, _Stack], float] | None = None
        self.next_look = time.monotonic() + DEADLOCK_S - _BETWEEN_LOOKS_S

    def finds(self, pids: Mapping[int, int]) -> bool:
        """Return True if the ranks, each given with its process, wait for one another. Call it at each ``next_look``."""
        computed_s = sum(map(processes.processor_s, pids.values()))
        stacks = _stacks(self._folder, pids)
        before, self._before = self._before, (stacks, computed_s)
        self.next_look = time.monotonic() + _BETWEEN_LOOKS_S
        return (
            before is not None
            and before[0] == stacks
            and len(stacks) == len(pids)
            and all(_is_in_collective(stack) for stack in stacks.values())
            and computed_s - before[1] < _IDLE * _BETWEEN_LOOKS_S
        )


def _stacks(folder: Path, pids: Mapping[int, int]) -> dict[int, _Stack]:
    """Return the stacks of the ranks that answer."""
    if _SIGNAL is None:
        return {}
    written = {}
    for rank, pid in pids.items():
        with contextlib.suppress(OSError):  # one that has ended, and one that removed its folder
            written[rank] = _stack_file(folder, rank).stat().st_size
            os.kill(pid, _SIGNAL)
    deadline = time.monotonic() + _ANSWER_S
    found = {
        rank: _main_stack(_appended_text(_stack_file(folder, rank), size, deadline))
        for rank, size in sorted(written.items())
    }
    return {rank: stack for rank, stack in found.items() if stack}


def _stack_file(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.stack"


def _appended_text(file: Path, before: int, deadline: float) -> str:
    """Return what a process has appended to a file of ``before`` bytes, once the file has stopped growing."""
    size = before
    try:
        while time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            found = file.stat().st_size
            if found == size > before:
                break
            size = found
        with file.open("rb") as stack:
            stack.seek(before)
            return stack.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""  # what is measured can remove it


def _main_stack(stacks: str) -> _Stack:
    """Return the frames of a rank, the innermost one first, from the stacks of its threads, of which the main one is the
    last."""
    threads = [
        tuple((file, int(line), name) for file, line, name in _FRAME.findall(stack))
        for stack in _THREAD.split(stacks)[1:]
    ]
    frames = threads[-1] if threads else ()
    if frames and frames[0][2] == "_engine_run_backward":  # on a GPU, backward's Python runs in a thread of its own
        own = (thread for thread in threads[:-1] if thread and not thread[0][0].endswith("/threading.py"))
        frames = next(own, frames)
    return tuple(itertools.takewhile(lambda frame: not frame[0].endswith(_FORKS_RANKS), frames))


def _places_of_stack(stack: _Stack) -> list[str]:
    return [*stack_places([FrameSummary(file, line, name, lookup_line=False) for file, line, name in reversed(stack)])]


def _is_in_collective(stack: _Stack) -> bool:
    """Return True if torch's call of a collective waits: all frames within it are torch's, Python's or the probe's."""
    files = [file for file, _, _ in stack]
    return any(file.endswith(_COLLECTIVES) for file in itertools.takewhile(_BENEATH.search, files))


def _described_stack(stack: _Stack) -> str:
    """Return the innermost place, the first one in another folder, which shows its purpose, and the line of the program."""
    found = _places_of_stack(stack)
    if not found:
        return f"{os.path.basename(stack[0][0])}:{stack[0][2]}"
    named = [place for place in found if "wrap" not in place.rpartition(":")[2]]  # decorators, which are everywhere
    of_program = next((place for place in found if place.rpartition(":")[2].isdigit()), "")
    caller = next((place for place in named if os.path.dirname(place) != os.path.dirname(found[0])), "")
    description = found[0]
    if caller and caller != of_program:
        description += f", called by {caller}"
    return f"{description}, from {of_program}" if of_program not in ("", found[0]) else description


def _ranks_text(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
