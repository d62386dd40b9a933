"""Processes that a program starts itself.

``torch.multiprocessing.spawn`` starts ranks, and so does torchrun's ``elastic_launch`` with a function (accelerate's
``notebook_launcher``): each rank here runs the one that it is. So it does of several ``Process`` of one function, which
take their number as an argument, if the job has ranks and no launcher numbers them. For other processes the command is
recorded, because nothing in them is measured.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dsregress.programs.launch.child_processes import trains
from dsregress.programs.world.program_errors import CannotRun
from dsregress.programs.world.resource_errors import program_place
from vgpu.replacing import Patches


class StartedError(RuntimeError):
    """The program starts its ranks in a way that a rank cannot follow, or waits for input; one line names the remedy."""

    says_where = True


class StartedProcesses:
    """Names of what a program started, in order, such as ``torchrun`` or ``Process(train)``."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbered: dict[str, int] = {}  #: function -> how many of its processes got numbers from 0 on
        #: Called with each process's words and environment before it starts; see `launch.console_scripts`.
        self.seen_by: Callable[[Sequence[str], Mapping[str, str] | None], None] = lambda words, environment: None

    @property
    def note(self) -> str:
        """Return the hint for a program that never trained; "" if it started nothing."""
        if not self.names:
            return ""
        return (
            f"; it started {self.names[0]}, and in processes that a program starts itself nothing is measured: start one "
            "process per rank, with torchrun or the line that it runs itself"
        )

    @property
    def numbered(self) -> tuple[str, int]:
        """Return the function of which the program started the most processes with numbers, and how many."""
        return max(self._numbered.items(), key=lambda one: one[1], default=("", 0))

    def add(self, target: Any, arguments: Sequence[object]) -> int | None:
        """Note a process of the program's own; return its number among those of its function, if it is given one."""
        name = f"Process({getattr(target, '__name__', target)})"
        self.names.append(name)
        number = self._numbered.get(name, 0)
        if not any(type(each) is int and each == number for each in arguments):
            return None
        self._numbered[name] = number + 1
        return number


@contextlib.contextmanager
def watch_processes(*, is_launched: bool = True) -> Iterator[StartedProcesses]:
    """Watch the processes that the program starts within the block, and run in this process the ranks that it spawns.
    ``is_launched`` if a launcher starts the ranks."""
    import multiprocessing.process as processes

    started = StartedProcesses()
    follows_ranks = not is_launched and _numbers()[1] > 1
    start, run = processes.BaseProcess.start, subprocess.Popen.__init__

    def start_process(process: Any) -> None:
        target = getattr(process, "_target", None)
        if _is_an_optimizer(target):
            raise StartedError(
                f"{program_place()}: an optimizer in a process of its own is not measured: leave out super_offload, "
                "or ZenFlow's overlap_step"
            )
        if target is not None and not str(target.__module__).startswith("torch."):  # which are data loaders' workers
            number = started.add(target, (*process._args, *process._kwargs.values()))
            if number is not None and follows_ranks:
                if number == _numbers()[0]:
                    target(*process._args, **process._kwargs)
                process.join = process.terminate = process.kill = lambda *_: None  # it is not started
                return
        start(process)

    def popen(process: Any, args: Any, *rest: Any, **kwargs: Any) -> None:
        if _is_ours(sys._getframe(1)):
            run(process, args, *rest, **kwargs)
            return
        words = [os.fsdecode(word) for word in ([args] if isinstance(args, (str, bytes, os.PathLike)) else args)]
        if kwargs.get("stdout") is None:  # the output of others is read by who starts them
            started.seen_by(words, kwargs.get("env"))
        if words and trains(words):
            started.names.append(" ".join(os.path.basename(word) for word in words[:4]))
        run(process, args, *rest, **kwargs)

    with Patches("a rank runs the process that it is") as patches:
        patches.replace(processes.BaseProcess, "start", start_process)
        patches.replace(subprocess.Popen, "__init__", popen)
        patches.replace(builtins, "input", _asks)
        patches.everywhere(_SPAWNING.start_processes, _start_processes, "start_processes")
        patches.everywhere(_SPAWNING.spawn, _spawn, "spawn")
        patches.replace(_LAUNCHING.elastic_launch, "__call__", _elastic_launch)
        yield started


def _is_an_optimizer(target: object) -> bool:
    """Return True if DeepSpeed steps in the process: it compiles kernels, and its work on a model is visible nowhere
    else."""
    of_deepspeed = str(getattr(target, "__module__", "")).startswith("deepspeed.")
    return of_deepspeed and "optimizer" in getattr(target, "__name__", "")


def _is_ours(frame: Any) -> bool:
    """Return True if a call of `subprocess` is the probe's own, as when it makes a skeleton."""
    while frame is not None and frame.f_code.co_filename == subprocess.__file__:
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith("dsregress.probe.border")


_SPAWNING: Any = importlib.import_module("torch.multiprocessing.spawn")  # torch.multiprocessing.spawn is the function
_LAUNCHING: Any = importlib.import_module("torch.distributed.launcher.api")
_LAUNCHED = _LAUNCHING.elastic_launch.__call__


def _spawn(fn: object, args: object = (), nprocs: int = 1, join: bool = True, *_: object, **__: object) -> object:
    return _start_processes(fn, args, nprocs, join)


def _start_processes(fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, *_: object, **__: object) -> object:
    """Run in this process the process that this rank is. Raise CannotRun if a node has another number of ranks."""
    fn(_local_rank(nprocs, "mp.spawn"), *args)
    return None if join else _EndedProcesses()


def _elastic_launch(launch: Any, *args: object) -> object:
    """Run this rank's process as `_start_processes` does. torchrun's agent would listen at a port, and here each rank
    would be an agent."""
    entry = launch._entrypoint
    if not callable(entry):
        return _LAUNCHED(launch, *args)
    rank = _local_rank(launch._config.nproc_per_node, getattr(entry, "__name__", "the launcher"))
    return {rank: entry(*args)}


def _local_rank(processes: int, starter: str) -> int:
    rank, ranks = _numbers()
    if processes != ranks:
        what = f"{starter} starts {processes} processes, and this job has {ranks} ranks on a node"
        raise CannotRun(f"{program_place()}: {what}: give --ranks {processes}")
    return rank


def _numbers() -> tuple[int, int]:
    """Return this rank's number on its node, and the number of ranks there."""
    return int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


class _EndedProcesses:
    """The context of processes that have ended."""

    def join(self, *_: object, **__: object) -> bool:
        return True


def _asks(prompt: object = "") -> str:
    raise StartedError(
        f"the program asks for input ({str(prompt)!r}), and a rank has no standard input: give the answer on its "
        f"command line. At {program_place()}"
    )
