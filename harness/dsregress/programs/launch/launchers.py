"""The environment variables and arguments with which a launcher begins the program, according to the launcher's own
code.

That code is the measured environment's, so a release that launches differently shows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dsregress.probe.launch_line import INSTALLED, LaunchLine, LaunchLineError, parse
from dsregress.programs.launch import console_scripts
from vgpu.process_start import RANK_VARIABLES, TORCHRUN_VARIABLES
from vgpu.replacing import MissingTarget, Patches, variables


@dataclasses.dataclass(frozen=True, kw_only=True)
class Start:
    """The program as a rank starts it."""

    program: str  #: a file, a module, or the name of an installed command
    is_module: bool
    arguments: tuple[str, ...]
    variables: dict[str, str]  #: of the environment, except those that give the rank
    entry: str = ""  #: of an installed command: ``litgpt.__main__:main``
    has_rank: bool = True  #: a launcher assigns one; ``python train.py`` has none
    is_launched: bool = True  #: a launcher starts the ranks of a job that has several


#: The variable of the cards that a process sees. Where a torch could use real ones, the harness sets it.
_CARDS = "CUDA_VISIBLE_DEVICES"

#: Asks accelerate to bind a process to the cores that the driver names for its GPU.
_BINDING = "ACCELERATE_CPU_AFFINITY"


def start_of(line: LaunchLine, local_rank: int) -> Start:
    """Return how the launcher of a line starts the program on a rank. Raise LaunchLineError if the launcher refuses the
    line, ImportError if it is not installed."""
    given = dict(line.variables)
    with variables(given):
        begun = _STARTS[line.launcher](line, local_rank)
    given.update(begun.variables)  # a launcher has the last word
    kept = {name: value for name, value in given.items() if name not in (*RANK_VARIABLES, _BINDING)}
    if _could_use_cards():
        kept.pop(_CARDS, None)
    is_launched = begun.has_rank or not RANK_VARIABLES.isdisjoint(dict(line.variables))
    # mpirun and srun assign ranks as well, and appear in no line.
    return dataclasses.replace(begun, variables=kept, has_rank=is_launched or _ranks() > 1, is_launched=is_launched)


def _could_use_cards() -> bool:
    """Return False if torch is loaded, and is a build for the CPU."""
    core = getattr(sys.modules.get("torch"), "_C", None)
    return bool(getattr(core, "_has_cuda", True))


def _ranks() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _plain_start(line: LaunchLine, local_rank: int) -> Start:
    return Start(
        program=line.program,
        is_module=line.is_module,
        arguments=line.arguments,
        variables={},
        has_rank=False,
    )


def _installed(line: LaunchLine, local_rank: int) -> Start:
    return dataclasses.replace(_plain_start(line, local_rank), entry=console_scripts.entry_point_of(line.program))


def _torchrun(line: LaunchLine, local_rank: int) -> Start:
    return dataclasses.replace(
        _plain_start(line, local_rank),
        has_rank=True,
        variables=TORCHRUN_VARIABLES,
    )


def _torch_launch(line: LaunchLine, local_rank: int) -> Start:
    """Start like torch.distributed.run's rank: without ``--use-env`` the program gets its local rank as an argument,
    which torch before 2.0 spells with an underscore."""
    begun = _torchrun(line, local_rank)
    if {"--use-env", "--use_env"} & {*line.options}:
        return begun
    torch = importlib.import_module("torch")
    name = "--local_rank" if torch.__version__.startswith("1.") else "--local-rank"
    return dataclasses.replace(begun, arguments=(f"{name}={local_rank}", *line.arguments))


def _deepspeed(line: LaunchLine, local_rank: int) -> Start:
    """Start like a rank of deepspeed.launcher.launch: the program gets its local rank as an argument."""
    own = () if "--no_local_rank" in line.options else (f"--local_rank={local_rank}",)
    return dataclasses.replace(_plain_start(line, local_rank), has_rank=True, arguments=(*own, *line.arguments))


def _accelerate(line: LaunchLine, local_rank: int) -> Start:
    launch = importlib.import_module("accelerate.commands.launch")
    module = ("--module",) if line.is_module else ()
    with _exits_explained("accelerate launch"):
        words = [*line.options, *module, line.program, *line.arguments]
        arguments = launch.launch_command_parser().parse_args(words)
    return accelerate_start(arguments)


def accelerate_start(arguments: object) -> Start:
    """Return the start for the parsed options of ``accelerate launch``. Its own code reads the configuration file,
    chooses a launcher, and sets the ranks' environment. Raise LaunchLineError if it refuses them or starts the
    program in an unknown way."""
    launch = importlib.import_module("accelerate.commands.launch")
    utils = importlib.import_module("accelerate.utils.launch")
    started: list[Start] = []

    def takes_over(environment_of: Callable[[Any], Any], has_rank: bool) -> Callable[[Any], None]:
        def take_over(chosen: Any) -> None:
            found = environment_of(chosen)
            variables = found[1] if isinstance(found, tuple) else found
            started.append(
                Start(
                    program=chosen.training_script,
                    is_module=bool(chosen.module),
                    arguments=tuple(chosen.training_script_args),
                    variables={name: str(value) for name, value in variables.items() if os.environ.get(name) != value},
                    has_rank=has_rank,
                )
            )

        return take_over

    with Patches("a launcher says how it starts a rank") as patches:
        for name, environment_of, has_rank in (
            ("deepspeed_launcher", utils.prepare_deepspeed_cmd_env, True),
            ("multi_gpu_launcher", utils.prepare_multi_gpu_env, True),
            ("simple_launcher", utils.prepare_simple_launcher_cmd_env, False),
        ):
            _replace(patches, launch, name, takes_over(environment_of, has_rank))
        patches.enter_context(_exits_explained("accelerate launch"))
        try:
            launch.launch_command(arguments)
        except (ValueError, OSError) as error:
            raise LaunchLineError(f"accelerate launch: {error}") from error
    if not started:
        raise LaunchLineError("accelerate launch: starts the program in a way that is not understood here")
    return started[0]


def _trl(line: LaunchLine, local_rank: int) -> Start:
    """Take over from accelerate's launcher, to which TRL's command hands one of its own scripts.

    If the command is a package, as in TRL 1.16, run it like any other command that starts a launcher: its modules keep
    the launcher as they find it when they are imported.
    """
    found = importlib.util.find_spec("trl.cli")
    if found is not None and found.submodule_search_locations:
        arguments = (line.program, *line.arguments)
        return dataclasses.replace(
            _plain_start(line, local_rank),
            program="trl",
            arguments=arguments,
            entry=console_scripts.entry_point_of("trl"),
        )
    cli = importlib.import_module("trl.cli")
    handed_over: list[Any] = []
    with Patches("TRL says what it launches") as patches:
        _replace(patches, cli, "launch_command", handed_over.append)
        patches.replace(sys, "argv", ["trl", line.program, *line.arguments])
        patches.enter_context(_exits_explained("trl"))
        cli.main()
    if not handed_over:
        raise LaunchLineError(f"trl {line.program} launches no training")
    return accelerate_start(handed_over[0])


def _llamafactory(line: LaunchLine, local_rank: int) -> Start:
    """Take over from torchrun, to which LLaMA-Factory's command hands a job of several ranks.

    0.7.1 has no launcher and starts one process. Since 0.9.3 the command changes the ranks' environment, allocator
    options among it. A job of one rank trains in the command's own process.
    """
    if line.program != "train":
        raise LaunchLineError(f"llamafactory-cli {line.program} trains nothing; write 'llamafactory-cli train FILE'")
    with variables({"FORCE_TORCHRUN": "1"} if _ranks() > 1 else {}):
        if os.environ.get("FORCE_TORCHRUN", "").lower() not in ("1", "true", "y"):
            alone = dataclasses.replace(_plain_start(line, local_rank), program="llamafactory.launcher", is_module=True)
            if importlib.util.find_spec(alone.program) is None:
                return dataclasses.replace(alone, program="llamafactory.cli", arguments=(line.program, *line.arguments))
            return alone
        command, environment = _handed_to_torchrun(["llamafactory-cli", line.program, *line.arguments])
        changed = {name: value for name, value in environment.items() if os.environ.get(name) != value}
    begun = _torchrun(parse(shlex.join(command)), local_rank)
    return dataclasses.replace(begun, variables={**begun.variables, **changed})


def _handed_to_torchrun(words: list[str]) -> tuple[list[str], Mapping[str, str]]:
    """Return the command that LLaMA-Factory's own command would run, and its environment."""

    class HandedToTorchrun(BaseException):
        """A BaseException, so that the caller cannot catch it."""

    run: Any = subprocess.run

    def take_over(command: object, *args: object, env: Mapping[str, str] | None = None, **kwargs: object) -> object:
        split = shlex.split(command) if isinstance(command, str) else command  # up to 0.9.0 it is a line for a shell
        if isinstance(split, list) and split[0] == "torchrun":
            raise HandedToTorchrun(split, env or {})
        return run(command, *args, env=env, **kwargs)

    def trains_alone(*args: object, **kwargs: object) -> None:
        raise LaunchLineError(
            "llamafactory-cli of this release starts one process, not one for each GPU: "
            "start a script that calls llamafactory.train.tuner.run_exp() by torchrun"
        )

    cli = importlib.import_module("llamafactory.cli")
    with Patches("LLaMA-Factory says what it launches") as patches:
        patches.replace(subprocess, "run", take_over)
        patches.replace(sys, "argv", words)
        patches.replace(cli, "run_exp", trains_alone, absent="a release with a launcher imports it elsewhere")
        patches.enter_context(_exits_explained("llamafactory-cli"))
        try:
            cli.main()
        except HandedToTorchrun as handed_over:
            command, environment = handed_over.args
            return command, environment
    raise LaunchLineError("llamafactory-cli of this release starts its programs in another way")


_STARTS: dict[str, Callable[[LaunchLine, int], Start]] = {
    "python": _plain_start,
    "torchrun": _torchrun,
    "torch.distributed.launch": _torch_launch,
    "deepspeed": _deepspeed,
    "accelerate": _accelerate,
    "trl": _trl,
    "llamafactory-cli": _llamafactory,
    INSTALLED: _installed,
}


def _replace(patches: Patches, module: Any, name: str, value: object) -> None:
    try:
        patches.replace(module, name, value)
    except MissingTarget:
        raise LaunchLineError(f"{module.__name__} of this release starts its programs in another way") from None


@contextlib.contextmanager
def _exits_explained(name: str) -> Iterator[None]:
    """Turn the exit of a parser that refuses its options, after printing the reason, into a LaunchLineError."""
    try:
        yield
    except SystemExit as error:
        raise LaunchLineError(f"{name} refuses its options (exit code {error.code}); the log says why") from None
