"""Where the ranks of a silent cell are: Python's own stack of each, which `faulthandler` writes on a signal, also while the
process waits in C for a message of another rank. Ranks that hang usually wait for different collectives, and each for
the other's."""

from __future__ import annotations

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

from harness.probe.border.encoding import text
from harness.probe.border.faults import MOST_WHEREABOUTS, WHEREABOUTS_LENGTH, places

#: One that no program, launcher or scheduler uses, as they do SIGUSR1; macOS has no such signals.
_SIGNAL: int | None = getattr(signal, "SIGRTMAX", None)

#: How long a process may take to answer. It needs a millisecond, unless it is stopped.
_ANSWER_S = 1.0
_LOOK_S = 0.02

_MOST_BYTES = 1 << 20

#: Beneath it, a rank's stack is that of the process that forked it.
_FORKS_RANKS = "/harness/probe/process/ranks.py"

_FRAME = re.compile(r'^  File "([^"\n]+)", line (\d+) in (\S+)$', re.MULTILINE)
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+[^\n]*:$", re.MULTILINE)

_answers: list[IO[bytes]] = []  # faulthandler keeps the descriptor alone


def answer(folder: Path, rank: int) -> None:
    """From here on, this process says on `ask` where it is."""
    if _SIGNAL is None:
        return
    file = _file(folder, rank).open("wb")
    _answers.append(file)
    faulthandler.register(_SIGNAL, file, all_threads=True)


def ask(folder: Path, pids: Mapping[int, int]) -> tuple[str, ...]:
    """Rank -> its process, each of which has called `answer`: lines such as ``ranks 0 and 2: deepspeed/comm/torch.py:
    all_gather_into_tensor, called by deepspeed/runtime/zero/partition_parameters.py:_dist_allgather_fn``. Nothing of a rank
    that does not answer."""
    if _SIGNAL is None:
        return ()
    for pid in pids.values():
        try:
            os.kill(pid, _SIGNAL)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + _ANSWER_S
    ranks_at: dict[str, list[int]] = {}
    for rank in sorted(pids):
        if place := _place(_written(_file(folder, rank), deadline)):
            ranks_at.setdefault(place, []).append(rank)
    lines = [text(f"{_named(ranks)}: {place}", WHEREABOUTS_LENGTH) for place, ranks in ranks_at.items()]
    if len(lines) > MOST_WHEREABOUTS:
        lines = [*lines[: MOST_WHEREABOUTS - 1], f"{len(lines) - MOST_WHEREABOUTS + 1} more places"]
    return tuple(lines)


def _file(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.stack"


def _written(file: Path, deadline: float) -> str:
    """What a process has written, once that does not grow."""
    size = 0
    while True:
        try:
            found = file.stat().st_size
        except OSError:
            return ""
        if (found and found == size) or time.monotonic() > deadline:
            break
        size = found
        time.sleep(_LOOK_S)
    with file.open("rb") as stack:
        return stack.read(_MOST_BYTES).decode("utf-8", "replace")


def _place(stacks: str) -> str:
    """Where a process is, by the stacks of its threads, the main one last, each with its innermost frame first."""
    threads = [
        [FrameSummary(file, int(line), name, lookup_line=False) for file, line, name in _FRAME.findall(stack)]
        for stack in _THREAD.split(stacks)[1:]
    ]
    if not threads or not threads[-1]:
        return ""
    frames = threads[-1]
    if frames[0].name == "_engine_run_backward":  # on a GPU, backward's Python runs in a thread of its own
        own = (thread for thread in threads[:-1] if thread and not thread[0].filename.endswith("/threading.py"))
        frames = next(own, frames)
    of_rank = [*itertools.takewhile(lambda frame: not frame.filename.endswith(_FORKS_RANKS), frames)]
    return _described([*places(of_rank[::-1])]) or f"{os.path.basename(frames[0].filename)}:{frames[0].name}"


def _described(found: Sequence[str]) -> str:
    """The innermost place, the first one of another folder, which says what it is for, and the line of the program."""
    if not found:
        return ""
    named = [place for place in found if "wrap" not in place.rpartition(":")[2]]  # decorators, which are everywhere
    of_program = next((place for place in found if place.rpartition(":")[2].isdigit()), "")
    caller = next((place for place in named if os.path.dirname(place) != os.path.dirname(found[0])), "")
    text = found[0]
    if caller and caller != of_program:
        text += f", called by {caller}"
    return f"{text}, from {of_program}" if of_program not in ("", found[0]) else text


def _named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
