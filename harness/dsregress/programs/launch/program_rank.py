"""Runs a program as one rank, from its first line until everything is measured."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dsregress.probe import launch_line
from dsregress.probe.border.surroundings import SKELETONS
from dsregress.probe.program import spelled_out
from dsregress.programs.launch import console_scripts, last_line, launchers, project_packages, started_processes
from dsregress.programs.launch.failure_causes import (
    LaunchedProgram,
    caught_refusal,
    environment_failure,
    lacks_launcher,
    lacks_packages,
    reported_by_importer,
)
from dsregress.programs.launch.submitted_jobs import run_submitted_jobs
from dsregress.programs.substitutes.absent_metrics import absent_metrics
from dsregress.programs.substitutes.absent_weights import absent_weights
from dsregress.programs.substitutes.local_weights import LocalWeights, local_weights
from dsregress.programs.substitutes.synthetic_datasets import MadeUp, synthetic_data
from dsregress.programs.substitutes.synthetic_encodings import made_up_encodings
from dsregress.programs.substitutes.synthetic_images import made_up_images
from dsregress.programs.watch.measured_training import ProgramEnded
from dsregress.programs.watch.step_watch import StepWatch
from dsregress.programs.world import random_state, workplace
from dsregress.programs.world.absent_servers import WaitsInVain
from dsregress.programs.world.ended_threads import ended_threads
from dsregress.programs.world.forked_processes import forked_processes
from dsregress.programs.world.process_pools import capped_pools
from dsregress.programs.world.program_errors import CannotRun, ProgramError
from dsregress.programs.world.resource_errors import NotHere
from dsregress.programs.world.terminal_size import usual_terminal
from vgpu.process_start import RANK_VARIABLES, command_line
from vgpu.replacing import attribute, variables, working_folder


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


def run_program(parameters: Mapping[str, object], source: str, measuring: Run) -> None:
    """Run the program of a cell, whose files are in ``source``, until ``measuring`` ends it. Exceptions of the program
    pass through. Raise ProgramError if it ends too early."""
    run_folder = Path(os.getcwd())
    folder = workplace.launch_folder(run_folder)
    line = workplace.placed_line(launch_line.parse(spelled_out(parameters)), source, run_folder)
    with working_folder(folder):
        start = _started(line)
        with _surrounded(parameters, run_folder, start, project=folder, contents=not measuring.is_simulated) as given:
            program = LaunchedProgram(
                line=line,
                start=start,
                run_folder=run_folder,
                source=source,
                is_tiny=bool(parameters["tiny"]),
                made_up=given.made_up,
            )
            random_state.seed_program()
            NotHere.said.clear()  # of what this process was forked from
            measuring.begin(lambda: _check_shrunk(given.weights, program.name) if program.is_tiny else None)
            try:
                with measuring.watch, _exits_explained(lambda: given.last.line, program.name, given.others):
                    _execute(start, given.others, given.of_a_rank)
                measuring.program_ended()
            except ProgramEnded:
                return
            except WaitsInVain as waits:
                if measuring.is_complete:
                    return
                raise CannotRun(str(waits)) from None
            except ProgramError as error:
                if isinstance(error, CannotRun) or measuring.watch.backwards or (refusal := caught_refusal()) is None:
                    raise
                raise refusal from error
            except Exception as error:  # a program's own, of any kind: raised again, or explained
                explained = environment_failure(error, program, measuring.steps, measuring.watch.backwards)
                if explained is None:
                    reason = reported_by_importer(error)
                    if reason is error:
                        raise
                    raise reason from reason.__cause__
                if measuring.is_complete and isinstance(
                    explained, CannotRun
                ):  # it lacks something for what it does last
                    return
                raise explained from (error if isinstance(explained, CannotRun) else None)
            finally:
                measuring.end()
    if not measuring.is_complete:
        starts, ranks = given.others.numbered
        if not measuring.steps and ranks > 1:
            raise CannotRun(f"{program.name} starts {ranks} ranks itself, by {starts}: give --ranks {ranks}")
        early = ProgramError(_too_early(measuring, program.name, given.others))
        refusal = caught_refusal() if not measuring.watch.backwards else None
        raise early if refusal is None else refusal from early


@dataclass(frozen=True)
class _Surroundings:
    """Surroundings of a running program: its models, its data sets, the processes that it starts, the last line that it
    wrote, and its rank's variables."""

    weights: LocalWeights
    made_up: MadeUp
    others: started_processes.StartedProcesses
    last: last_line.LastLine
    of_a_rank: Mapping[str, str]


@contextlib.contextmanager
def _surrounded(
    parameters: Mapping[str, object], run_folder: Path, start: launchers.Start, *, project: Path, contents: bool
) -> Iterator[_Surroundings]:
    """Give the program within the block what this machine lacks, and the command line of its start. Saved and loaded
    weights have values only with ``contents``."""
    models = os.environ.get(SKELETONS) or run_folder / "skeletons"
    wants_rows = bool(parameters["synthetic_data"])
    with (
        local_weights(models, bool(parameters["tiny"]), contents=contents, without=wants_rows) as weights,
        synthetic_data(wants_rows) as made_up,
        made_up_images(wants_rows),
        absent_weights(),
        absent_metrics(),
        made_up_encodings(),
        capped_pools(),
        ended_threads(),
        usual_terminal(),
        forked_processes(),
        _start_variables(start, of_a_rank := _of_a_rank()),
        _command_line(start),
        project_packages.importable(project),
        run_submitted_jobs(of_a_rank),
        started_processes.watch_processes(is_launched=start.is_launched) as others,
        last_line.keep_last_line() as last,
    ):
        yield _Surroundings(weights, made_up, others, last, of_a_rank)


@contextlib.contextmanager
def canary_surroundings(parameters: Mapping[str, object], *, contents: bool) -> Iterator[None]:
    """Enter what a program in the working folder has around it and what watches it, without a program."""
    folder = Path.cwd()
    start = launchers.Start(program="train.py", is_module=False, arguments=(), variables={})
    with _surrounded(parameters, folder, start, project=folder, contents=contents), StepWatch(_Deaf()):
        yield


class _Deaf:
    """A listener of no event."""

    def __getattr__(self, event: str) -> Callable[..., None]:
        return lambda *_, **__: None


@contextlib.contextmanager
def _exits_explained(
    last_line: Callable[[], str], program: str, others: started_processes.StartedProcesses
) -> Iterator[None]:
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
    said = last_line() if isinstance(ended.code, int) else str(ended.code)
    if (needed := lacks_packages(said)) is not None:
        raise needed from ended
    why = f": {said}" if said and isinstance(ended.code, int) else ""
    raise ProgramError(f"{program} exits with {ended.code!r}{why}{others.note}") from ended


def _is_of_a_parser(error: Exception) -> bool:
    """Return True if a command line was wrong, which the parser reports in a line of its own."""
    return type(error).__module__.partition(".")[0] in ("argparse", "click")


def _started(line: launch_line.LaunchLine) -> launchers.Start:
    try:
        return launchers.start_of(line, int(os.environ.get("LOCAL_RANK", "0")))
    except ModuleNotFoundError as error:
        if (cannot := lacks_launcher(error)) is not None:
            raise cannot from error
        raise


def _check_shrunk(weights: LocalWeights, program: str) -> None:
    """Raise ProgramError if no model of the program was shrunk."""
    if not weights.shrunk:
        raise ProgramError(f"{program} builds no model from a configuration class, and --tiny can shrink no other")


def _too_early(measuring: Run, program: str, others: started_processes.StartedProcesses) -> str:
    steps, backwards = measuring.steps, measuring.watch.backwards
    if not measuring.wanted_steps:
        return f"{program} ended without a call of a model{others.note}"
    if steps == 0 and backwards == 0:
        ask = "" if others.note else ": one that only generates or scores is measured with --inference"
        return f"{program} ended without an optimizer step{others.note}{ask}"
    passes = f"{backwards} backward pass{'es' if backwards > 1 else ''}"
    took = f"{steps} optimizer step{'s' if steps > 1 else ''}" if steps else f"{passes} and no optimizer step"
    fewer = f", or measure its last one with --steps {steps - 1}" if steps else ""
    wanted = measuring.wanted_steps
    return f"{program} ended after {took}, and {wanted} are needed: give it more data or epochs{fewer}"


def _execute(start: launchers.Start, others: started_processes.StartedProcesses, of_a_rank: Mapping[str, str]) -> None:
    if start.entry:
        if (handed_over := _run_installed_command(start, others)) is not None:
            with _start_variables(handed_over, of_a_rank), _command_line(handed_over):
                _execute(handed_over, others, of_a_rank)
    elif start.is_module:
        runpy.run_module(start.program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(start.program, run_name="__main__")


def _run_installed_command(
    start: launchers.Start, others: started_processes.StartedProcesses
) -> launchers.Start | None:
    """Run an installed command; return how a rank starts what the command starts."""
    try:
        with console_scripts.handing_over(others):
            console_scripts.run_command(start.program, start.entry)
    except console_scripts.HandedOver as handed_over:
        what = handed_over.what
    if isinstance(what, launch_line.LaunchLine):
        return _started(what)
    return launchers.accelerate_start(what)


def _of_a_rank() -> dict[str, str]:
    return {name: os.environ[name] for name in RANK_VARIABLES & os.environ.keys()}


@contextlib.contextmanager
def _start_variables(start: launchers.Start, of_a_rank: Mapping[str, str]) -> Iterator[None]:
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
    file = sys.executable if start.entry else start.program
    first = os.getcwd() if start.is_module else os.path.dirname(os.path.abspath(file))
    searched = start.variables.get("PYTHONPATH", "")
    more = searched.split(os.pathsep) if searched else []  # of which an empty one is the current folder
    words, folders = [start.program, *start.arguments], [first, *map(os.path.abspath, more)]
    bytecode = attribute(sys, "dont_write_bytecode", True)  # next to the user's files
    with command_line(words, folders), project_packages.found_before_the_environment(folders), bytecode:
        yield
