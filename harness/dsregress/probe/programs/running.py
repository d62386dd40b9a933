"""Runs a program as one rank, from its first line until everything is measured."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dsregress.probe import isolation, launch_line
from dsregress.probe.border import faults, machine
from dsregress.probe.border.surroundings import SKELETONS
from dsregress.probe.launch_line import LaunchLineError
from dsregress.probe.program import spelled_out
from dsregress.probe.programs import (
    commands,
    imports,
    last_line,
    launchers,
    more_columns,
    packages,
    project,
    random_state,
    started,
    tiny_models,
    workplace,
)
from dsregress.probe.programs.absent_files import absent_file
from dsregress.probe.programs.data import synthetic_data
from dsregress.probe.programs.encodings import made_up_encodings
from dsregress.probe.programs.errors import NotHere, place_of
from dsregress.probe.programs.images import made_up_images
from dsregress.probe.programs.measuring import ProgramEnded
from dsregress.probe.programs.metrics import absent_metrics
from dsregress.probe.programs.pools import as_many_processes_as_processors
from dsregress.probe.programs.sockets import NoNetworkError
from dsregress.probe.programs.started import StartedError
from dsregress.probe.programs.steps import StepWatch
from dsregress.probe.programs.weights import LocalWeights, local_weights
from vgpu.error_chain import behind, behind_one_another
from vgpu.replacing import variables, working_folder


class ProgramError(RuntimeError):
    """The program did not do what is to be measured; one line says what it did instead."""


class CannotRun(ProgramError):
    """The program needs something that is not available, which says nothing about a release; the first line says what to
    add."""

    says_what_to_do = True
    refuses = ""  #: the fault that the machine does not have, as it is we who refuse (see `machine.of_error`)


#: Errors of the same kind.
_NOT_HERE = (CannotRun, NotHere, NoNetworkError, StartedError, LaunchLineError)


def says_nothing_of_a_release(error: BaseException) -> bool:
    """Return True if the failure is due to the machine, environment or launch line, not the release."""
    return isinstance(error, _NOT_HERE) or isinstance(error.__cause__, _NOT_HERE)


#: Most characters kept of a library's message, so that what to add is not cut off.
_MOST_SAID = 100


class Run(Protocol):
    """The purpose of one run of a program: begins before the program's first line, and may end it by ProgramEnded."""

    watch: StepWatch

    @property
    def steps(self) -> int:
        """Return the number of optimizer steps so far of the model that counts."""

    @property
    def wanted_steps(self) -> int:
        """Return the least number of steps needed; 0 for a program that does not train and ends by itself."""

    @property
    def is_simulated(self) -> bool: ...

    @property
    def is_complete(self) -> bool:
        """Return True if the program may end by itself: only further timed rounds are left."""

    def begin(self, check: Callable[[], None]) -> None: ...

    def program_ended(self) -> None:
        """Called when the program has ended by itself. May raise ProgramEnded, too."""

    def end(self) -> None: ...


def run(parameters: Mapping[str, Any], source: str, measuring: Run) -> None:
    """Run the program of a cell, whose files are in ``source``, until ``measuring`` ends it. Exceptions of the program
    pass through. Raise ProgramError if it ends too early."""
    run_folder = Path(os.getcwd())
    folder = workplace.launched(run_folder)
    line = workplace.placed(launch_line.parse(spelled_out(parameters)), source, run_folder)
    tiny = bool(parameters["tiny"])
    with working_folder(folder):
        start = _started(line)
        with (
            local_weights(
                os.environ.get(SKELETONS) or run_folder / "skeletons", tiny, contents=not measuring.is_simulated
            ) as weights,
            synthetic_data(bool(parameters["synthetic_data"])) as made_up,
            made_up_images(bool(parameters["synthetic_data"])),
            absent_metrics(),
            made_up_encodings(),
            as_many_processes_as_processors(),
            _environment(start, of_a_rank := _of_a_rank()),
            _command_line(start),
            project.importable(folder),
            started.watched() as others,
            last_line.kept() as last,
        ):
            random_state.begin()
            measuring.begin(lambda: _check_shrunk(weights, line.program) if tiny else None)
            try:
                with measuring.watch, _exits_explained(lambda: last.line, line.program, others):
                    _execute(start, others, of_a_rank)
                measuring.program_ended()
            except ProgramEnded:
                return
            except ProgramError:
                raise
            except Exception as error:
                if isinstance(error, OSError) and (path := isolation.refused_path(run_folder, error)):
                    cannot = CannotRun(
                        f"{line.program} writes to {path}, and this machine can keep it from your files only by refusing: "
                        "let it write below its folder"
                    )
                    cannot.refuses = machine.READ_ONLY
                    raise cannot from error
                if not start.has_rank and _asks_for_its_rank(error):
                    raise CannotRun(
                        f"{line.program} asks for its rank, and no launcher gives it one: start it by torchrun or deepspeed"
                    ) from error
                if isinstance(error, ModuleNotFoundError) and imports.is_missing(error.name):
                    raise CannotRun(_without(error, line.program, start)) from error
                if isinstance(error, OSError) and (absence := behind(error, NotHere)) is not None:
                    raise absence from None  # transformers replaces it with advice about the hub
                if (refused := behind(error, NoNetworkError)) is not None:
                    raise CannotRun(str(refused)) from error
                if needed := packages.asked_for(error):
                    raise CannotRun(_refused(error, needed)) from error
                if tiny and (beyond := tiny_models.beyond_vocabulary(error)):
                    raise CannotRun(
                        f"{line.program}: {beyond}: take ids from the tokenizer, or below model.config.vocab_size"
                    ) from error
                if not measuring.steps and (absent := absent_file(error, line.arguments, source)):
                    raise CannotRun(absent) from error
                if made_up.guessed and not measuring.watch.backwards:
                    if column := more_columns.missed(error, _sources(start), line.arguments):
                        more_columns.note(run_folder, column)
                    if column or more_columns.does_not_suit(error):
                        raise CannotRun(_unknown_rows(made_up.guessed, error)) from error
                raise
            finally:
                measuring.end()
    if not measuring.is_complete:
        raise ProgramError(_too_early(measuring, line.program, others))


def _asks_for_its_rank(error: BaseException) -> bool:
    """Return True if torch or the program missed a variable of a rank, or DeepSpeed tried MPI for it."""
    for one in behind_one_another(error):
        if isinstance(one, KeyError) and one.args and one.args[0] in launchers.OF_A_RANK:
            return True
        if isinstance(one, ModuleNotFoundError) and one.name == "mpi4py":
            return True
        if "env:// rendezvous: environment variable" in str(one):
            return True
    return False


@contextlib.contextmanager
def _exits_explained(last_line: Callable[[], str], program: str, others: started.StartedProcesses) -> Iterator[None]:
    """Raise the error behind a program's exit (hydra exits after it has printed one), and ProgramError for any other
    exit without success."""
    ended: SystemExit | None = None
    try:
        yield
    except SystemExit as error:
        ended = error
    if ended is None or ended.code in (None, 0):
        return
    reason = ended.__context__
    if isinstance(ended.code, int) and isinstance(reason, Exception) and not _is_of_a_parser(reason):
        raise reason  # outside the handler of the exit, so that it keeps the errors behind it
    why = f": {last_line()}" if last_line() and isinstance(ended.code, int) else ""
    raise ProgramError(f"{program} exits with {ended.code!r}{why}{others.note}") from ended


def _is_of_a_parser(error: Exception) -> bool:
    """Return True if a command line was wrong, which the parser reports in a line of its own."""
    return type(error).__module__.partition(".")[0] in ("argparse", "click")


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
    """Raise ProgramError if no model of the program was shrunk."""
    if not weights.shrunk:
        raise ProgramError(f"{program} builds no model from a configuration class, and --tiny can shrink no other")


def _without(error: ModuleNotFoundError, program: str, start: launchers.Start) -> str:
    first = str(error.name).partition(".")[0]
    if os.path.isdir(first) or os.path.isfile(f"{first}.py"):
        return f"{program} imports {first!r} of the folder that it is launched in: write PYTHONPATH=. before the line"
    names = [first, *(name for name in imports.missing(_first_files(start), _own_folders()) if name != first)]
    modules, packages = ("modules", "their packages") if len(names) > 1 else ("module", "its package")
    return _named(f"{program} lacks the {modules} ", names, f": add {packages} with --with PACKAGE")


def _own_folders() -> list[str]:
    """Return the folders of the program's own modules: its own folder, those that it added to the path, and its
    project's."""
    added = [
        folder for folder in sys.path[1:] if workplace.beside(os.path.realpath(folder), os.path.realpath(os.getcwd()))
    ]
    return [sys.path[0], *added, *project.folders(Path.cwd())]


def _first_files(start: launchers.Start) -> list[Path]:
    """Return those of the program's own files that run first."""
    if start.is_module or start.entry:
        return imports.own_files(start.entry.partition(":")[0] or start.program, _own_folders())
    return [Path(start.program)]


def _sources(start: launchers.Start) -> list[Path]:
    return imports.reached(_first_files(start), _own_folders())


def _unknown_rows(names: Sequence[str], error: BaseException) -> str:
    """Return the reason and the remedy, short enough for one line."""
    said = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
    most = _MOST_SAID // 2
    return f"{place_of(error)}: made-up rows of {', '.join(names)[:most]} do not suit it ({said[:most]}): give its data set"


def _named(before: str, names: Sequence[str], after: str) -> str:
    """Return a line with all names or, if they do not fit, with as many as fit, and all of them in a second line."""
    room = faults.SIGNATURE_LENGTH - len(f"{CannotRun.__name__}: {before}{after}")
    if len(every := ", ".join(map(repr, names))) <= room:
        return f"{before}{every}{after}"
    most = next(n for n in range(len(names) - 1, -1, -1) if n == 0 or len(_counted(names, n)) <= room)
    return f"{before}{_counted(names, most)}{after}\nAll {len(names)}: {every}"


def _counted(names: Sequence[str], most: int) -> str:
    """Return ``'torch', 'numpy' and 7 more``."""
    return f"{', '.join(map(repr, names[:most]))} and {len(names) - most} more"


def _refused(error: BaseException, needed: Sequence[str]) -> str:
    """Return a library's own message, cut to fit into a line, with the packages to add."""
    said = str(faults.announced(error)).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
    return f"{said[:_MOST_SAID]}: {_add(*needed)}"


def _add(*needed: str) -> str:
    return "give " + " ".join(f"--with {name}" for name in needed)


def _too_early(measuring: Run, program: str, others: started.StartedProcesses) -> str:
    steps, backwards = measuring.steps, measuring.watch.backwards
    if not measuring.wanted_steps:
        return f"{program} ended without a call of a model{others.note}"
    if steps == 0 and backwards == 0:
        ask = "" if others.note else ": one that only generates or scores is measured with --inference"
        return f"{program} ended without an optimizer step{others.note}{ask}"
    passes = f"{backwards} backward pass{'es' if backwards > 1 else ''}"
    took = f"{steps} optimizer step{'s' if steps > 1 else ''}" if steps else f"{passes} and no optimizer step"
    return f"{program} ended after {took}, and {measuring.wanted_steps} are needed: give it more data or epochs"


def _execute(start: launchers.Start, others: started.StartedProcesses, of_a_rank: Mapping[str, str]) -> None:
    if start.entry:
        if (handed_over := _command(start, others)) is not None:
            with _environment(handed_over, of_a_rank), _command_line(handed_over):
                _execute(handed_over, others, of_a_rank)
    elif start.is_module:
        runpy.run_module(start.program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(start.program, run_name="__main__")


def _command(start: launchers.Start, others: started.StartedProcesses) -> launchers.Start | None:
    """Run an installed command; return how a rank starts what the command starts."""
    try:
        with commands.handing_over(others):
            commands.run(start.program, start.entry)
    except commands.HandedOver as handed_over:
        what = handed_over.what
    if isinstance(what, launch_line.LaunchLine):
        return _started(what)
    return launchers.accelerated(what)


def _of_a_rank() -> dict[str, str]:
    return {name: os.environ[name] for name in launchers.OF_A_RANK & os.environ.keys()}


@contextlib.contextmanager
def _environment(start: launchers.Start, of_a_rank: Mapping[str, str]) -> Iterator[None]:
    """Set the start's variables within the block. A program without a rank gets no variables of a rank, since accelerate
    would make it DDP."""
    with variables({**of_a_rank, **start.variables}):
        if not start.has_rank:
            for name in of_a_rank:
                del os.environ[name]
        yield


@contextlib.contextmanager
def _command_line(start: launchers.Start) -> Iterator[None]:
    """Set ``sys.argv`` and the first entries of ``sys.path`` within the block as Python does for a script or a module."""
    argv, path, bytecode = sys.argv, list(sys.path), sys.dont_write_bytecode
    file = sys.executable if start.entry else start.program
    first = os.getcwd() if start.is_module else os.path.dirname(os.path.abspath(file))
    sys.argv = [start.program, *start.arguments]
    more = [folder for folder in start.variables.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.path[:0] = [first, *map(os.path.abspath, more)]
    sys.dont_write_bytecode = True  # next to the user's files
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.dont_write_bytecode = argv, path, bytecode
