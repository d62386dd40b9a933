"""Runs a launch line's program on a virtual card, in this process, and prints what came of it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from vgpu import isolation
from vgpu.card_catalogue import named_card
from vgpu.command import FAILED, NOT_MODELLED, RAN
from vgpu.command.launch_words import LaunchedScript, LaunchWordsError, read_launch_words
from vgpu.command.run_summary import summary_text
from vgpu.command.timeline_page import timeline_page
from vgpu.error_chain import behind
from vgpu.fault import BrokenPart
from vgpu.no_stand_in import NoStandInError
from vgpu.process_start import RANK_VARIABLES, command_line
from vgpu.replacing import variables
from vgpu.sim.errors import SimulationError
from vgpu.virtual_gpu import attach


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankRequest:
    """The rank to run, on which card. None: as the launch line says, else the default."""

    card: str
    rank: int
    ranks: int | None
    ranks_per_node: int | None
    steps: int | None


def run_line(words: Sequence[str], request: RankRequest, *, run_folder: Path, page: Path | None) -> int:
    """Run the program of a launch line, print its memory, and write its timeline to ``page``. Return the command's exit
    code. ``run_folder`` has the shield that this process has joined. Raise LaunchWordsError or UnknownCard before anything
    runs."""
    named_card(request.card)
    script = read_launch_words(words)
    if not script.is_module and not os.path.isfile(script.program):
        raise LaunchWordsError(f"{script.program}: no such file")
    rank, ranks = request.rank, request.ranks or script.ranks or 1
    if not 0 <= rank < ranks:
        raise LaunchWordsError(f"--rank {rank}: there are {ranks} ranks, counted from 0")
    ended = RAN
    per_node = request.ranks_per_node or script.ranks_per_node or 8
    with (
        attach(request.card, rank, ranks, ranks_per_node=per_node, steps=request.steps) as gpu,
        _started(script, ranks),
    ):
        ended = _run_script(script, run_folder)
    sys.stderr.flush()
    print(summary_text(gpu), flush=True)
    if page is not None:
        page.write_text(timeline_page(gpu), encoding="utf-8")
    return ended


def _run_script(script: LaunchedScript, run_folder: Path) -> int:
    """Run the program to its end. Print what it failed with, and return the exit code."""
    try:
        if script.is_module:
            runpy.run_module(script.program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(script.program, run_name="__main__")
    except SystemExit as error:
        if error.code in (None, 0):
            return RAN
        print(f"vgpu: {script.program} exits with {error.code}", file=sys.stderr)
        return FAILED
    except BrokenPart as error:
        print(f"vgpu: not modelled: {error}", file=sys.stderr)
        return NOT_MODELLED
    except Exception as error:  # a program's own, of any kind: its exit code is the answer
        refused = behind(error, SimulationError) or behind(error, NoStandInError)
        if refused is not None:
            print(f"vgpu: not modelled: {refused}", file=sys.stderr)
            return NOT_MODELLED
        if isinstance(error, OSError) and (path := isolation.refused_path(run_folder, error)):
            print(
                f"vgpu: {script.program} writes to {path}, and this machine can keep it from your files only by refusing: "
                "let it write below $TMPDIR",
                file=sys.stderr,
            )
            return NOT_MODELLED
        _print_traceback(error)
        return FAILED
    return RAN


def _print_traceback(error: Exception) -> None:
    """Print a program's traceback, which begins at its own first frame."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        frame = frame.tb_next
    traceback.print_exception(type(error), error, frame)


@contextlib.contextmanager
def _started(script: LaunchedScript, ranks: int) -> Iterator[None]:
    """Set the environment, ``sys.argv`` and ``sys.path`` within the block as the launcher and Python do."""
    own = [f"--local_rank={os.environ['LOCAL_RANK']}"] if script.takes_local_rank else []
    first = os.getcwd() if script.is_module else os.path.dirname(os.path.abspath(script.program))
    with variables(script.variables), command_line([script.program, *own, *script.arguments], [first]):
        if not script.takes_rank and ranks == 1:  # accelerate would make it DDP
            for name in RANK_VARIABLES & os.environ.keys():
                del os.environ[name]
        yield
