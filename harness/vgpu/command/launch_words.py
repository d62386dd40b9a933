"""A launch line as words, read by its launcher's own parser: what a rank runs, and how many there are."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from vgpu.process_start import TORCHRUN_VARIABLES


class LaunchWordsError(ValueError):
    """A launch line, or an option, that cannot be run; one line gives the reason."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LaunchedScript:
    """The program of a launch line, as each rank starts it."""

    program: str  #: a file or a module
    is_module: bool
    arguments: tuple[str, ...]
    ranks: int | None = None  #: that the launcher starts; None if the line does not say
    ranks_per_node: int | None = None
    takes_rank: bool = True  #: gets the variables of a rank
    takes_local_rank: bool = False  #: gets ``--local_rank=N`` as its first argument
    variables: dict[str, str] = dataclasses.field(default_factory=dict)  #: of the environment, besides the rank's


def read_launch_words(words: Sequence[str]) -> LaunchedScript:
    """Return the program of a launch line. Raise LaunchWordsError for a launcher that is not known, or that refuses its
    options."""
    if not words:
        raise LaunchWordsError("give the launch line after the options: vgpu run --ranks 8 -- torchrun train.py")
    launcher, rest = os.path.basename(words[0]), list(words[1:])
    if re.fullmatch(r"python(\d(\.\d+)?)?", launcher):
        while rest and re.fullmatch(r"-[uBOsSEIqv]+", rest[0]):
            del rest[0]
        if rest[:2] == ["-m", "torch.distributed.run"]:
            return _torchrun(rest[2:])
        return _python(rest)
    if launcher in _LAUNCHERS:
        return _LAUNCHERS[launcher](rest)
    if launcher.endswith(".py"):
        return _python(list(words))
    raise LaunchWordsError(
        f"{launcher}: no launcher that is known here; start the script by torchrun, deepspeed or python"
    )


def _python(words: list[str]) -> LaunchedScript:
    is_module = words[:1] == ["-m"]
    words = words[1:] if is_module else words
    if not words or words[0].startswith("-"):
        raise LaunchWordsError("the launch line names no program: python train.py, or python -m MODULE")
    return LaunchedScript(program=words[0], is_module=is_module, arguments=tuple(words[1:]), takes_rank=False)


def _torchrun(words: list[str]) -> LaunchedScript:
    run = importlib.import_module("torch.distributed.run")
    options = _parsed("torchrun", lambda: run.get_args_parser().parse_args(words))
    if options.no_python:
        raise LaunchWordsError("torchrun --no-python starts any program; only Python programs run here")
    per_node = _whole_number(options.nproc_per_node) if _gives(words, "nproc") else None
    nodes = _whole_number(str(options.nnodes).rpartition(":")[2])
    return LaunchedScript(
        program=options.training_script,
        is_module=bool(options.module),
        arguments=tuple(options.training_script_args),
        ranks=per_node * nodes if per_node and nodes else None,
        ranks_per_node=per_node,
        variables=TORCHRUN_VARIABLES,
    )


def _deepspeed(words: list[str]) -> LaunchedScript:
    try:
        runner = importlib.import_module("deepspeed.launcher.runner")
    except ModuleNotFoundError as error:
        raise LaunchWordsError(
            f"the launch line needs {error.name}, which is not installed: pip install deepspeed"
        ) from error
    options = _parsed("deepspeed", lambda: runner.parse_args(words))
    if options.no_python:
        raise LaunchWordsError("deepspeed --no_python starts any program; only Python programs run here")
    per_node = options.num_gpus if options.num_gpus > 0 else None
    return LaunchedScript(
        program=options.user_script,
        is_module=bool(options.module),
        arguments=tuple(options.user_args),
        ranks=per_node * max(1, options.num_nodes) if per_node else None,
        ranks_per_node=per_node,
        takes_local_rank=not options.no_local_rank,
    )


_LAUNCHERS: dict[str, Callable[[list[str]], LaunchedScript]] = {"torchrun": _torchrun, "deepspeed": _deepspeed}


def _parsed(launcher: str, parse: Callable[[], object]) -> Any:
    """Return what a launcher's parser returns. Raise LaunchWordsError with its own message if it refuses the words."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return parse()
    except SystemExit as error:
        reason = said.getvalue().strip().rpartition("\n")[2].partition("error: ")[2]
        raise LaunchWordsError(f"{launcher}: {reason or 'it starts no program'}") from error


def _gives(words: Sequence[str], option: str) -> bool:
    return any(word.startswith((f"--{option}-per-node", f"--{option}_per_node")) for word in words)


def _whole_number(text: Any) -> int | None:
    return int(text) if str(text).isdecimal() and int(text) else None
