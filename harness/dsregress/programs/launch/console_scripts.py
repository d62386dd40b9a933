"""Commands that packages install: ``litgpt finetune_lora ARGS``, ``axolotl train FILE``, ``tune run ARGS``.

Such a command trains in its own process, or starts a launcher. It begins as the program; if it starts one of the
launchers that a launch line can have, that line continues in its place, as the rank that this process is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dsregress.probe.launch_line import LaunchLine, LaunchLineError, parse_words
from dsregress.programs.launch.child_processes import launch_line_of
from vgpu.replacing import Patches

if TYPE_CHECKING:
    from dsregress.programs.launch.started_processes import StartedProcesses

#: Files in which the project in the working folder declares the commands that it would install.
_PROJECT_FILES = ("pyproject.toml", "setup.cfg", "setup.py")


class HandedOver(BaseException):
    """Carries out of a command what it launches: a line, or the parsed options of ``accelerate launch``. A
    BaseException, so that the command cannot catch it."""

    def __init__(self, what: LaunchLine | object) -> None:
        super().__init__()
        self.what = what


def entry_point_of(name: str) -> str:
    """Return ``module:function`` of a command, as declared by an installed package or by the project in the working
    folder. Raise LaunchLineError if neither has it."""
    for point in importlib.metadata.entry_points(group="console_scripts", name=name):
        return point.value
    said = re.compile(rf"""(?:^|[\s"'.]){re.escape(name)}["']?\s*=\s*["']?([\w.]+:[\w.]+)""", re.MULTILINE)
    for file in map(Path, _PROJECT_FILES):
        if file.is_file() and (found := said.search(file.read_text(encoding="utf-8", errors="replace"))):
            return found[1]
    raise LaunchLineError(
        f"no file and no installed command is called {name!r}: give --with the package that has it, or write the line that "
        "it starts, e.g. 'torchrun train.py'"
    )


def run_command(name: str, entry_point: str) -> NoReturn:
    """Run a command like the script that an installer writes. ``name`` becomes ``sys.argv[0]``. Raise SystemExit."""
    module, _, function = entry_point.partition(":")
    sys.argv[0] = name
    command: Any = importlib.import_module(module)
    for attribute in function.split("."):
        command = getattr(command, attribute)
    sys.exit(command())


@contextlib.contextmanager
def handing_over(others: StartedProcesses) -> Iterator[None]:
    """Raise HandedOver within the block when a launcher is started, as a process or by calling its function."""
    launch = importlib.import_module("accelerate.commands.launch")
    torchrun = importlib.import_module("torch.distributed.run")

    def process(words: Sequence[str], environment: Mapping[str, str] | None) -> None:
        if line := launch_line_of(words):
            changed = {name: value for name, value in (environment or {}).items() if os.environ.get(name) != value}
            raise HandedOver(dataclasses.replace(line, variables=(*line.variables, *changed.items())))

    def accelerate_launch(options: object) -> NoReturn:
        raise HandedOver(options)

    def torch_run(options: Any) -> NoReturn:
        module = ("--module",) if options.module else ()
        raise HandedOver(
            parse_words(("torchrun", *module, options.training_script, *map(str, options.training_script_args)))
        )

    def execute(file: Any, arguments: Sequence[Any], environment: Mapping[str, str] | None = None) -> NoReturn:
        process([os.fsdecode(word) for word in arguments], environment)
        raise LaunchLineError(
            f"the command goes on as {os.fsdecode(file)}, which is no launcher that is understood here"
        )

    before, others.seen_by = others.seen_by, process
    try:
        with Patches("a command hands its launch line over") as patches:
            patches.everywhere(launch.launch_command, accelerate_launch, "launch_command")
            patches.everywhere(torchrun.run, torch_run, "run")
            for name in ("execv", "execve", "execvp", "execvpe"):
                patches.replace(os, name, execute)
            patches.replace(os, "system", lambda line: subprocess.call(line, shell=True))
            yield
    finally:
        others.seen_by = before
