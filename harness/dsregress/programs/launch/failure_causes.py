"""Failures of a program that say nothing of a release: the error of one line that names what to add, for each kind."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsregress.probe import program_imports
from dsregress.probe.border import faults, machine
from dsregress.probe.launch_line import LaunchLine, LaunchLineError
from dsregress.probe.module_packages import packages_by_module
from dsregress.programs.launch import (
    absent_files,
    absent_packages,
    absent_tools,
    empty_folders,
    hub_downloads,
    launchers,
    missing_imports,
    own_downloads,
    project_packages,
    unset_variables,
)
from dsregress.programs.launch.started_processes import StartedError
from dsregress.programs.launch.swallowed_imports import swallowed_reason
from dsregress.programs.substitutes import more_columns, synthetic_files, tiny_models
from dsregress.programs.substitutes.absent_weights import NEEDED, needed_weights
from dsregress.programs.substitutes.synthetic_datasets import MadeUp
from dsregress.programs.world import workplace
from dsregress.programs.world.local_sockets import NoNetworkError
from dsregress.programs.world.program_errors import CannotRun, ProgramError
from dsregress.programs.world.resource_errors import NotHere, is_in_the_program, place_of
from vgpu import isolation
from vgpu.error_chain import behind, behind_one_another
from vgpu.process_start import RANK_VARIABLES

#: Errors due to the machine, the environment or the launch line.
_NOT_HERE = (CannotRun, NotHere, NoNetworkError, StartedError, LaunchLineError)

#: Most characters kept of a library's message, so that what to add is not cut off.
_MOST_SAID = 100


#: Lightning's words where it would start a rank on each of these devices, of which there are fewer, and programs' own.
_ASKED_FOR_DEVICES = re.compile(
    r"You requested (?:gpu|GPUs): \[(?P<devices>[\d, ]+)\]"
    r"|[Rr]equest(?:ed|s|ing)? (?P<count>\d{1,3}) (?:process(?:es)?|GPUs?|devices?)\b.*\b\d+ (?:GPUs?|devices?)\b"
)


@dataclass(frozen=True, kw_only=True)
class LaunchedProgram:
    """A program while it runs: its line and how a rank starts it, the run's folder and the user's folder ``source``, and
    what it has of ours. ``is_tiny`` if its models are shrunk."""

    line: LaunchLine
    start: launchers.Start
    run_folder: Path
    source: str
    is_tiny: bool
    made_up: MadeUp

    @property
    def name(self) -> str:
        return self.line.program


def is_environment_failure(error: BaseException) -> bool:
    """Return True if the failure is due to the machine, environment or launch line, not the release."""
    return isinstance(error, _NOT_HERE) or isinstance(error.__cause__, _NOT_HERE)


#: How runpy (``-m``) and Hydra (``_target_``) say that an import failed, each in place of the reason.
_OF_AN_IMPORTER = re.compile(r"Error while finding module specification for|Error loading '")


def reported_by_importer(error: Exception) -> Exception:
    """Return the error that runpy or Hydra reports in words of its own, or that a package of the program's own caught and
    led to this one; any other error unchanged."""
    cause = error.__cause__
    is_theirs = isinstance(error, ImportError) and _OF_AN_IMPORTER.match(str(error))
    if isinstance(cause, Exception) and (is_theirs or type(error).__module__ == "hydra.errors"):
        return reported_by_importer(cause)
    return swallowed_reason(error)


def environment_failure(
    error: Exception, program: LaunchedProgram, optimizer_steps: int, backward_passes: int
) -> Exception | None:
    """Return the error to raise in place of one that a program raised after so many steps and passes; None if that one
    says something of a release."""
    error = reported_by_importer(error)
    if missing_imports.is_undeclared(error):
        return None
    for explain in _EXPLANATIONS:
        if (cannot := explain(error, program)) is not None:
            return cannot
    if not optimizer_steps and (absent := _of_an_absent_file(error, program)) is not None:
        return absent
    if not backward_passes and (needed := needed_weights(error)):
        return CannotRun(f"{place_of(error)}: {needed} {NEEDED}: put it there")
    if program.made_up.guessed and not backward_passes:
        return _of_unknown_rows(error, program)
    if not optimizer_steps and (folder := empty_folders.folder_without_data(error)):
        line = absent_files.without_files(folder, error, program.source)
        return CannotRun(line) if line else None
    is_own = isinstance(error, ProgramError) or is_in_the_program(error, through=())
    return caught_refusal() if is_own and not backward_passes else None


def caught_refusal() -> CannotRun | None:
    """Return the last refusal of a resource, which a program that fails or ends without training may have caught; None if
    nothing was refused."""
    if not NotHere.said:
        return None
    refusal = CannotRun(NotHere.said[-1])
    refusal.says_where = True
    return refusal


def _of_an_absent_file(error: Exception, program: LaunchedProgram) -> Exception | None:
    """Explain a missing file. Note one that can be made up, so that the cell is retried with it."""
    absent = absent_files.absent_file(error, program.line.arguments, program.source, program.run_folder)
    return _told(absent, program) if absent is not None else None


def _told(absent: absent_files.AbsentFile, program: LaunchedProgram) -> CannotRun:
    if absent.form and program.made_up.is_wanted:
        synthetic_files.note_file(program.run_folder, absent.path, absent.form)
    return CannotRun(absent.line)


def _of_a_refused_path(error: Exception, program: LaunchedProgram) -> Exception | None:
    if not isinstance(error, OSError) or not (path := isolation.refused_path(program.run_folder, error)):
        return None
    cannot = CannotRun(
        f"{program.name} writes to {path}, and this machine can keep it from your files only by refusing: let it write "
        "below its folder"
    )
    cannot.refuses = machine.READ_ONLY
    return cannot


def _of_a_missing_rank(error: Exception, program: LaunchedProgram) -> Exception | None:
    if program.start.has_rank or not _asks_for_its_rank(error):
        return None
    return CannotRun(
        f"{program.name} asks for its rank, and no launcher gives it one: start it by torchrun or deepspeed"
    )


def _of_a_missing_module(error: Exception, program: LaunchedProgram) -> Exception | None:
    if isinstance(error, ModuleNotFoundError) and missing_imports.is_missing(error.name):
        return CannotRun(_without(error, program))
    return None


def _of_an_unset_variable(error: Exception, program: LaunchedProgram) -> Exception | None:
    said = unset_variables.what_to_set(error)
    return CannotRun(said) if said is not None else None


def _of_another_python(error: Exception, program: LaunchedProgram) -> Exception | None:
    """Explain code of the program's own that this Python cannot read."""
    if not isinstance(error, SyntaxError) or not error.filename:
        return None
    if workplace.path_beside(os.path.realpath(error.filename), os.path.realpath(os.getcwd())) is None:
        return None
    where = f"{os.path.basename(error.filename)}:{error.lineno}"
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    return CannotRun(f'{where}: {version} cannot read it ({error.msg}): the setting `python = "X.Y"` takes another one')


def _of_an_unbuilt_module(error: Exception, program: LaunchedProgram) -> Exception | None:
    """Explain a missing part of the program's own package that has to be compiled."""
    name = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
    package = importlib.util.find_spec(name.partition(".")[0]) if "." in name else None
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        inside = workplace.path_beside(os.path.realpath(folder), os.path.realpath(os.getcwd()))
        if inside and project_packages.is_compiled(folder):
            how = (
                "`python setup.py build_ext --inplace`"
                if os.path.isfile(os.path.join(folder, "setup.py"))
                else "see its README"
            )
            return CannotRun(
                f"{program.name} lacks {name!r}, which the project compiles: build it first in {inside}: {how}"
            )
    return None


def _of_the_network(error: Exception, program: LaunchedProgram) -> Exception | None:
    if isinstance(error, OSError | NotHere) and (absence := behind(error, NotHere)) is not None:
        return absence  # transformers replaces it with advice about the hub
    refused = behind(error, NoNetworkError)
    if refused is None:
        return None
    if of_hub := hub_downloads.absent_from_hub(error):
        return CannotRun(of_hub)
    address = own_downloads.refused_address(error, refused.host)
    if path := own_downloads.path_of_download(error, address):
        return _told(absent_files.undownloaded_file(path, error, program.run_folder), program)
    if address:
        return CannotRun(
            f"{place_of(error)}: downloads {address}, and a run has no network: put it where it looks first"
        )
    return CannotRun(str(refused))


def _of_a_missing_package(error: Exception, program: LaunchedProgram) -> Exception | None:
    """Explain a missing package, or a program of the system that no package brings."""
    if needed := absent_packages.packages_asked_for(error):
        own = (_of_its_project(name, program) for name in needed)
        return CannotRun(next(filter(None, own), "") or _refusal_text(error, needed))
    if tool := absent_tools.absent_tool(error):
        return CannotRun(
            f"{place_of(error)}: needs the program {tool}, which this machine lacks: install it as a package of the system's"
        )
    return None


def _of_a_shrunk_vocabulary(error: Exception, program: LaunchedProgram) -> Exception | None:
    beyond = tiny_models.beyond_vocabulary(error) if program.is_tiny else ""
    if not beyond:
        return None
    return CannotRun(f"{program.name}: {beyond}: take ids from the tokenizer, or below model.config.vocab_size")


def _of_a_login(error: Exception, program: LaunchedProgram) -> Exception | None:
    if not any(type(one).__name__ == "LocalTokenNotFoundError" for one in behind_one_another(error)):
        return None
    what = "asks the hub who its user is, and a run has no network"
    return CannotRun(f"{program.name} {what}: leave out the option that does, e.g. --push_to_hub")


def _of_too_few_ranks(error: Exception, program: LaunchedProgram) -> Exception | None:
    asked = _ASKED_FOR_DEVICES.search(str(error))
    if asked is None:
        return None
    devices = [int(each) for each in asked["devices"].split(",")] if asked["devices"] else []
    if devices != [*range(len(devices))]:
        first = "0" if len(devices) == 1 else f"0 to {len(devices) - 1}"
        return CannotRun(
            f"{program.name} asks for GPU {asked['devices']}, and they begin with 0: let it ask for {first}"
        )
    count = len(devices) or int(asked["count"])
    return CannotRun(f"{program.name} starts {count} ranks, on as many GPUs: give --ranks {count}")


#: In this order, as the first one counts.
_EXPLANATIONS: tuple[Callable[[Exception, LaunchedProgram], Exception | None], ...] = (
    _of_a_refused_path,
    _of_a_missing_rank,
    _of_an_unset_variable,
    _of_a_missing_module,
    _of_another_python,
    _of_an_unbuilt_module,
    _of_the_network,
    _of_a_missing_package,
    _of_a_login,
    _of_too_few_ranks,
    _of_a_shrunk_vocabulary,
)


def _of_unknown_rows(error: Exception, program: LaunchedProgram) -> Exception | None:
    """Explain an error due to guessed columns. Note the missing one, or the one too many, so that the cell is retried."""
    sources, arguments = _sources(program.start), program.line.arguments
    if column := more_columns.missed_column(error, sources, arguments):
        more_columns.note_columns(program.run_folder, [column, *more_columns.others_of_its_row(column, sources)])
    elif column := more_columns.surplus_column(error, sources, arguments):
        more_columns.note_surplus(program.run_folder, column)
    if column or more_columns.does_not_suit(error):
        return CannotRun(_unknown_rows(program.made_up.guessed, error))
    return None


def lacks_launcher(error: ModuleNotFoundError) -> CannotRun | None:
    """Return the error of an environment that lacks the package which starts the program; None if it has it."""
    if not missing_imports.is_missing(error.name):
        return None
    return CannotRun(f"the environment lacks {error.name!r}, which starts the program: {_add(str(error.name))}")


def lacks_packages(said: str) -> CannotRun | None:
    """Return the error of a program that exits as it lacks packages, which its last line names; None if it names none."""
    error = ProgramError(said)
    needed = absent_packages.packages_asked_for(error)
    return CannotRun(_refusal_text(error, needed)) if needed else None


def _asks_for_its_rank(error: BaseException) -> bool:
    """Return True if torch or the program missed a variable of a rank, or DeepSpeed tried MPI for it."""
    for one in behind_one_another(error):
        if isinstance(one, KeyError) and one.args and one.args[0] in RANK_VARIABLES:
            return True
        if isinstance(one, ModuleNotFoundError) and one.name == "mpi4py":
            return True
        if "env:// rendezvous: environment variable" in str(one):
            return True
    return False


def _without(error: ModuleNotFoundError, program: LaunchedProgram) -> str:
    first = str(error.name).partition(".")[0]
    for folder, of_folder in ((".", "the folder that it is launched in"), ("src", "the folder src")):
        path = os.path.join(folder, first)
        if os.path.isfile(f"{path}.py") or project_packages.has_code(path):
            return f"{program.name} imports {first!r} of {of_folder}: write PYTHONPATH={folder} before the line"
    files = _first_files(program.start)
    others = (name for name in missing_imports.missing_modules(files, _own_folders()) if name != first)
    names = [first, *others]
    if own := _of_its_project(first, program):
        return own
    known = packages_by_module()
    cloned = "" if first in known else project_packages.cloned_repository(first, _source(program))
    if cloned:
        what = f"{program.name} lacks the module {first!r}, and its README clones {cloned}"
        return f"{what}: clone that, and write its folder with {first!r} into PYTHONPATH before the line"
    modules = "modules" if len(names) > 1 else "module"
    return _line_of_names(f"{program.name} lacks the {modules} ", names, f": add {_options_of(names, known)}")


def _of_its_project(module: str, program: LaunchedProgram) -> str:
    """Return where the program's project has a module that no known package brings, and how to have it searched; empty if
    it has none."""
    known = packages_by_module()
    if module in known or module in known.values():
        return ""
    place = project_packages.folder_with_module(module, _source(program))
    if place is None:
        return ""
    return f"{program.name} imports {module!r} of its project's {place}: write PYTHONPATH={place} before the line"


def _source(program: LaunchedProgram) -> Path:
    return Path(os.path.realpath(program.source))


def _options_of(names: Sequence[str], known: Mapping[str, str]) -> str:
    """Return the options that add the packages of these modules, as far as they are ``known``."""
    options = " ".join(f"--with {known[name]}" for name in names if name in known)
    unknown = [name for name in names if name not in known]
    if not unknown:
        return options
    several = "their packages with --with PACKAGE" if len(unknown) > 1 else "its package with --with PACKAGE"
    return several if not options else f"{options}, and with --with PACKAGE that of {', '.join(map(repr, unknown))}"


def _own_folders() -> list[str]:
    """Return the folders of the program's own modules: its own folder, those that it added to the path, and its
    project's."""
    added = [
        folder
        for folder in sys.path[1:]
        if workplace.path_beside(os.path.realpath(folder), os.path.realpath(os.getcwd()))
    ]
    return [sys.path[0], *added, *project_packages.package_folders(Path.cwd())]


def _first_files(start: launchers.Start) -> list[Path]:
    """Return those of the program's own files that run first."""
    if start.is_module or start.entry:
        return program_imports.own_files(start.entry.partition(":")[0] or start.program, _own_folders())
    return [Path(start.program)]


def _sources(start: launchers.Start) -> list[Path]:
    return missing_imports.reached_files(_first_files(start), _own_folders())


def _unknown_rows(names: Sequence[str], error: BaseException) -> str:
    """Return the reason and the remedy, short enough for one line."""
    said = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
    most = _MOST_SAID // 2
    return f"{place_of(error)}: made-up rows of {', '.join(names)[:most]} do not suit it ({said[:most]}): give its data set"


def _line_of_names(before: str, names: Sequence[str], after: str) -> str:
    """Return a line with all names or, if they do not fit, with as many as fit, and all of them in a second line."""
    room = faults.INSTRUCTION_LENGTH - len(f"{CannotRun.__name__}: {before}{after}")
    if len(every := ", ".join(map(repr, names))) <= room:
        return f"{before}{every}{after}"
    most = next(n for n in range(len(names) - 1, -1, -1) if n == 0 or len(_listed_up_to(names, n)) <= room)
    return f"{before}{_listed_up_to(names, most)}{after}\nAll {len(names)}: {every}"


def _listed_up_to(names: Sequence[str], most: int) -> str:
    """Return ``'torch', 'numpy' and 7 more``."""
    return f"{', '.join(map(repr, names[:most]))} and {len(names) - most} more"


def _refusal_text(error: BaseException, needed: Sequence[str]) -> str:
    """Return a library's own message, cut to fit into a line, with the packages to add; if not all of them fit, all in a
    second line."""
    said = str(faults.announced(error)).strip().partition("\n")[0].partition(". ")[0].rstrip(".")[:_MOST_SAID]
    room = faults.INSTRUCTION_LENGTH - len(f"{CannotRun.__name__}: {said}: ")
    whole = [*needed]
    while len(whole) > 1 and len(_add(*whole)) > room:  # a part of a name is another package's
        whole.pop()
    rest = "" if len(whole) == len(needed) else f"\nAll {len(needed)}: {_add(*needed)}"
    return f"{said}: {_add(*whole)}{rest}"


def _add(*needed: str) -> str:
    return "give " + " ".join(f"--with {name}" for name in needed)
