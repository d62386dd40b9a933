"""Runs a program as one rank, from its first line until everything is measured."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from harness.probe import launch_line
from harness.probe.border.surroundings import SKELETONS
from harness.probe.launch_line import LaunchLineError
from harness.probe.programs import imports, last_line, launchers, packages, project, random_state, started, workplace
from harness.probe.programs.data import synthetic_data
from harness.probe.programs.errors import NotHere, behind
from harness.probe.programs.images import made_up_images
from harness.probe.programs.measuring import ProgramEnded
from harness.probe.programs.metrics import absent_metrics
from harness.probe.programs.sockets import NoNetworkError
from harness.probe.programs.started import StartedError
from harness.probe.programs.steps import StepWatch
from harness.probe.programs.weights import LocalWeights, local_weights
from harness.probe.replacing import variables, working_folder


class ProgramError(RuntimeError):
    """The program did not do what is to be measured; one line says what it did instead."""


class CannotRun(ProgramError):
    """What the program needs is not here, which says nothing of a release; one line says what to add."""


#: Errors of the same kind.
_NOT_HERE = (CannotRun, NotHere, NoNetworkError, StartedError, LaunchLineError)


def says_nothing_of_a_release(error: BaseException) -> bool:
    """Whether a program ended for what this machine, its environment or its launch line lacks."""
    return isinstance(error, _NOT_HERE) or isinstance(error.__cause__, _NOT_HERE)


#: Characters of a library's words, so that what to add is not cut off.
_MOST_SAID = 100


class Run(Protocol):
    """What one run of a program is for: it begins before the program's first line, and may end it by ProgramEnded."""

    watch: StepWatch

    @property
    def steps(self) -> int:
        """Optimizer steps of the model that counts, so far."""

    @property
    def wanted_steps(self) -> int:
        """How many are needed until it ends the program."""

    @property
    def is_simulated(self) -> bool: ...

    @property
    def is_complete(self) -> bool:
        """Whether the program may end by itself: all that is left are further timed rounds."""

    def begin(self, check: Callable[[], None]) -> None: ...

    def end(self) -> None: ...


def run(parameters: Mapping[str, Any], source: str, measuring: Run) -> None:
    """Runs the program of a cell, whose files are in ``source``, until ``measuring`` ends it. Exceptions of the program pass
    through. Raises ProgramError where it ends too early."""
    folder = Path(os.getcwd()) / workplace.NAME
    line = workplace.beside(launch_line.parse(spelled_out(parameters)), source)
    tiny = bool(parameters["tiny"])
    with working_folder(folder):
        start = _started(line)
        with (
            local_weights(
                os.environ.get(SKELETONS) or folder.parent / "skeletons", tiny, contents=not measuring.is_simulated
            ) as weights,
            synthetic_data(bool(parameters["synthetic_data"])),
            made_up_images(bool(parameters["synthetic_data"])),
            absent_metrics(),
            variables(start.variables),
            _command_line(start),
            project.importable(folder),
            started.watched() as others,
            last_line.kept() as last,
        ):
            workplace.protect(folder)
            random_state.begin()
            measuring.begin(lambda: _check_shrunk(weights, line.program) if tiny else None)
            try:
                with measuring.watch:
                    _execute(start)
            except ProgramEnded:
                return
            except SystemExit as error:
                if error.code not in (None, 0):
                    why = f": {last.line}" if last.line and isinstance(error.code, int) else ""
                    raise ProgramError(f"{line.program} exits with {error.code!r}{why}{others.note}") from error
            except Exception as error:
                if isinstance(error, ModuleNotFoundError) and imports.is_missing(error.name):
                    raise CannotRun(_without(error, line.program, start)) from error
                if isinstance(error, OSError) and (absence := behind(error, NotHere)) is not None:
                    raise absence from None  # transformers replaces it by advice about the hub
                if (refused := behind(error, NoNetworkError)) is not None:
                    raise CannotRun(str(refused)) from error
                if needed := packages.asked_for(error):
                    raise CannotRun(_refused(error, needed)) from error
                raise
            finally:
                measuring.end()
    if not measuring.is_complete:
        raise ProgramError(_too_early(measuring, line.program, others))


def _started(line: launch_line.LaunchLine) -> launchers.Start:
    try:
        return launchers.start(line, int(os.environ.get("LOCAL_RANK", "0")))
    except ModuleNotFoundError as error:
        if imports.is_missing(error.name):
            raise CannotRun(
                f"the environment lacks {error.name!r}, which starts the program: {_add(str(error.name))}"
            ) from error
        raise


def _check_shrunk(weights: LocalWeights, program: str) -> None:
    """Raises ProgramError."""
    if not weights.shrunk:
        raise ProgramError(f"{program} builds no model from a configuration class, and --tiny can shrink no other")


def spelled_out(parameters: Mapping[str, Any]) -> str:
    """The launch line of a cell."""
    line = str(parameters["program"])
    for name, value in parameters.items():
        line = line.replace("{" + name + "}", str(value).lower() if isinstance(value, bool) else str(value))
    more = str(parameters.get("arguments", ""))
    return f"{line} {more}".strip()


def _without(error: ModuleNotFoundError, program: str, start: launchers.Start) -> str:
    first = str(error.name).partition(".")[0]
    if os.path.isdir(first) or os.path.isfile(f"{first}.py"):
        return f"{program} imports {first!r} of the folder that it is launched in: write PYTHONPATH=. before the line"
    files = imports.own_files(start.program, sys.path[:1]) if start.is_module else [Path(start.program)]
    own = [sys.path[0], *project.folders(Path.cwd())]
    names = [first, *(name for name in imports.missing(files, own) if name != first)]
    modules, packages = ("modules", "their packages") if len(names) > 1 else ("module", "its package")
    needed = ", ".join(map(repr, names))
    return f"{program} lacks the {modules} {needed}: add {packages} with --with PACKAGE"


def _refused(error: BaseException, needed: Sequence[str]) -> str:
    """A library's own words, as far as they go in a line."""
    said = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
    return f"{said[:_MOST_SAID]}: {_add(*needed)}"


def _add(*needed: str) -> str:
    return "give " + " ".join(f"--with {name}" for name in needed)


def _too_early(measuring: Run, program: str, others: started.StartedProcesses) -> str:
    steps, backwards = measuring.steps, measuring.watch.backwards
    if steps == 0 and backwards == 0:
        return f"{program} ended without an optimizer step{others.note}"
    passes = f"{backwards} backward pass{'es' if backwards > 1 else ''}"
    took = f"{steps} optimizer step{'s' if steps > 1 else ''}" if steps else f"{passes} and no optimizer step"
    return f"{program} ended after {took}, and {measuring.wanted_steps} are needed: give it more data or epochs"


def _execute(start: launchers.Start) -> None:
    if start.is_module:
        runpy.run_module(start.program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(start.program, run_name="__main__")


@contextlib.contextmanager
def _command_line(start: launchers.Start) -> Iterator[None]:
    """``sys.argv`` and the first entries of ``sys.path``, as Python sets them for a script or a module."""
    argv, path, bytecode = sys.argv, list(sys.path), sys.dont_write_bytecode
    first = os.getcwd() if start.is_module else os.path.dirname(os.path.abspath(start.program))
    sys.argv = [start.program, *start.arguments]
    more = [folder for folder in start.variables.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[:0] = [first, *map(os.path.abspath, more)]
    sys.dont_write_bytecode = True  # beside the user's files
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.dont_write_bytecode = argv, path, bytecode
