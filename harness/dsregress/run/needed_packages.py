"""Packages that a program imports and its stack lacks, found before anything is built, from its source and its stack's lock.

A module counts as lacking only if the package that provides it is known (`dsregress.probe.module_packages`, the
project's own requirements) and not in the lock. What else may be missing is found where the program runs.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dsregress.errors import UsageError
from dsregress.model import AXES
from dsregress.probe.launch_line import INSTALLED, LaunchLine
from dsregress.probe.module_packages import launched_package, module_named, packages_by_module
from dsregress.probe.program_imports import all_imports, files_in_reach, imports_of_files, own_files
from dsregress.run.asserted_releases import asserted_requirements, within_asserted
from dsregress.run.installed_folders import installed_folders
from dsregress.run.own_packages import OwnPackage, ProjectItself, own_packages, project_itself
from dsregress.run.project_requirements import (
    AddressedRequirement,
    DeclaredRequirement,
    addressed_requirements,
    declared_requirements,
    project_scripts,
)
from dsregress.run.settings_targets import files_of_targets
from dsregress.wording.quantities import enumeration
from vgpu.no_stand_in import WITHOUT_STAND_IN

_TABLES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

#: Packages that have stand-ins in a run, and those that a run's names are placeholders of.
_WITH_STAND_INS = {"flash-attn", "bitsandbytes", "liger-kernel", "triton", *map(canonicalize_name, WITHOUT_STAND_IN)}

#: Packages that no program lacks here: those, and what torch loads by itself for an accelerator that a run has not.
_PROVIDED = {*_WITH_STAND_INS, *_TABLES["of_other_accelerators"]}

#: Class of a library -> the package without which the library refuses to make one.
_ASKED_FOR_BY_NAMES: dict[str, str] = _TABLES["asked_for_by_names"]

#: ``report_to="wandb"``, ``--report-to wandb``, ``log_with: wandb``: trainers' names of trackers, which are packages.
_TRACKER = re.compile(r"(?:report[_-]to|log[_-]with)[\"'\s=:\[]{1,4}(wandb|tensorboard|swanlab|mlflow|trackio)\b")

#: Packages that libraries look for when a program asks them for something: named if the project requires them.
_ASKED_FOR_BY_LIBRARIES = frozenset(_TABLES["asked_for_by_libraries"])

#: Packages that a project requires and no program imports to train.
_TOOLS = frozenset(_TABLES["tools"])

_MOST_FILES = 5_000


class ProgramNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of a program beyond its stack."""

    modules: tuple[str, ...] = ()  #: that it imports in any case, and whose packages the stack lacks
    #: package -> the project's requirement: those of `modules`, and what the project requires and may import
    packages: dict[str, DeclaredRequirement | None] = {}
    #: package of every stack -> what the project requires of it
    partners: dict[str, DeclaredRequirement] = {}
    #: package -> what else the project requires and the stack lacks: one of them may provide a module of another name
    others: dict[str, DeclaredRequirement] = {}
    #: package -> what the project requires of it, whether or not the stack has it
    required: dict[str, DeclaredRequirement] = {}
    #: package that it imports -> the repository from which the project takes it
    addressed: dict[str, AddressedRequirement] = {}
    files: tuple[Path, ...] = ()  #: its own that were read
    in_reach: tuple[Path, ...] = ()  #: those and its own that they import anywhere, except in a ``try``
    own: tuple[OwnPackage, ...] = ()  #: its own in place of those of every stack
    itself: ProjectItself | None = None  #: the module of its project that it imports, and that its line does not find


def needs_of_program(line: LaunchLine, folder: Path, locked: Iterable[str]) -> ProgramNeeds:
    """Return what the program in ``folder`` imports and none of the ``locked`` requirements provides."""
    has = {canonicalize_name(Requirement(text).name) for text in locked}
    wanted = declared_requirements(_project_places(line, folder))
    provided = {module for module, package in packages_by_module().items() if package in has}
    of_their_names = {module_named(name): name for name in wanted if module_named(name) not in provided}
    known = {**packages_by_module(), **of_their_names}
    packages = {**_packages_of_parts(wanted, has), **known}
    own = _own_names(folder)

    def lacks(module: str) -> bool:
        package = packages.get(module)
        if package is None or package in has or package in _PROVIDED or module in sys.stdlib_module_names:
            return False
        return module not in own or (module in known and package in wanted)

    folders = _folders(line, folder)
    itself = project_itself(folder, folders)
    folders += [str(folder / itself.folder)] if itself is not None else []
    found = list(imports_of_files(_first_files(line, folder, folders), folders, lacks))
    modules = {module for _, lacking in found for module in lacking}
    chosen = (file for file, _ in imports_of_files(files_of_targets(folder, folders), folders, lacks))
    for one in asserted_requirements(file for file, _ in found):  # it does not start with another release
        package = packages.get(one.requirement.name, canonicalize_name(one.requirement.name))
        wanted[package] = within_asserted(wanted.get(package), one)
    in_reach = files_in_reach([*(file for file, _ in found), *chosen], folders)
    required = {package for package, one in wanted.items() if not one.is_optional}
    imported = {
        module for file in in_reach for module in all_imports(file) if lacks(module) and packages[module] in required
    }
    needed = modules | {module for module in imported if not own_files(module, folders)}
    asked = {package for package in _ASKED_FOR_BY_LIBRARIES if package in wanted and package not in has}
    asked |= set(_asked_by_name(line, [file for file, _ in found])) - has
    command = _package_of_line(line, folders, has)
    names = sorted({packages[module] for module in needed} | asked | {command} - {""})
    addressed = addressed_requirements(_project_places(line, folder))
    names_imported = {name for file in in_reach for name in all_imports(file)}
    imports = {packages.get(name, canonicalize_name(name)) for name in names_imported}
    return ProgramNeeds(
        modules=tuple(sorted(modules)),
        packages={name: wanted.get(name) for name in names},
        required=wanted,
        partners={name: wanted[name] for name in AXES if name in wanted and name in has},
        others={name: one for name, one in wanted.items() if name not in {*has, *names, *_PROVIDED, *_TOOLS}},
        addressed={name: one for name, one in addressed.items() if name in imports and name not in own},
        files=tuple(file for file, _ in found),
        in_reach=tuple(sorted(in_reach)),
        itself=itself if itself is not None and itself.module in names_imported else None,
        own=tuple(
            own_packages(
                folder, _searched(line, folder), [file for file, _ in found], wanted, installed_folders(folder)
            )
        ),
    )


def _asked_by_name(line: LaunchLine, files: Iterable[Path]) -> Iterator[str]:
    """Yield the packages that libraries need for the classes and trackers that a program and its line name."""
    words = [*line.options, *line.arguments]
    yield from _TRACKER.findall(" ".join(words))
    for file in files:
        try:
            source = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        yield from _TRACKER.findall(source)
        for name, package in _ASKED_FOR_BY_NAMES.items():
            if re.search(rf"\b{name}(?:\.from_pretrained)?\(", source):
                yield package


def check_imports(line: LaunchLine, folder: Path, locked: Iterable[str]) -> None:
    """Raise UsageError naming all modules of known packages that the program in ``folder`` imports in any case, and that
    none of the ``locked`` requirements provides, with the options that add them."""
    needs = needs_of_program(line, folder, locked)
    if not needs.modules:
        return
    named = enumeration([repr(module) for module in needs.modules])
    options = " ".join(_option(package, wanted) for package, wanted in needs.packages.items())
    raise UsageError(f"{line.program} imports {named}, which the stack lacks", where="--program", hint=f"add {options}")


def _option(package: str, wanted: DeclaredRequirement | None) -> str:
    """Return the option that adds a package, as the project's requirements pin it."""
    return f"--with {package}={wanted.pin}" if wanted is not None and wanted.pin else f"--with {package}"


def _package_of_line(line: LaunchLine, folders: list[str], has: Iterable[str]) -> str:
    """Return the known package that installs what a line starts; empty if the stack has it, or for a program of its own."""
    package = "" if line.is_module and own_files(line.program, folders) else launched_package(line)
    return "" if package in has or package in _PROVIDED else package


def _packages_of_parts(wanted: Iterable[str], has: Iterable[str]) -> dict[str, str]:
    """Return, by module, the required package with the module's name as a part of its own: ``ibm-fms`` for ``fms``."""
    theirs = {module_named(name) for name in has}
    return {part: name for name in wanted for part in name.split("-") if part not in theirs and len(part) > 2}


def _project_places(line: LaunchLine, folder: Path) -> list[Path]:
    """Return the folders whose project is the program's: that of the script, which may have requirements of its own, and
    that of the line."""
    script = [] if line.is_module or line.is_command else [(folder / line.program).parent]
    return [*script, folder]


def _first_files(line: LaunchLine, folder: Path, folders: list[str]) -> list[Path]:
    """Return the program's own files that run first."""
    if line.launcher == INSTALLED:
        entry = project_scripts(folder).get(line.program, "")
        return own_files(entry.partition(":")[0], folders) if entry else []
    if line.is_command:
        return []
    return own_files(line.program, folders) if line.is_module else [folder / line.program]


def _folders(line: LaunchLine, folder: Path) -> list[str]:
    """Return the folders in which the program's own modules are looked for."""
    return [*_searched(line, folder), str(folder), str(folder / "src")]


def _searched(line: LaunchLine, folder: Path) -> list[str]:
    """Return the folders that Python searches before the environment."""
    first = folder if line.is_module else (folder / line.program).parent
    searched = dict(line.variables).get("PYTHONPATH", "")
    return [str(first), *(str(folder / each) for each in searched.split(os.pathsep) if searched)]


def _own_names(folder: Path) -> set[str]:
    """Return the names of the modules and folders of code below ``folder``: a program may add any of those to its path."""
    names: set[str] = set()
    seen = 0
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name != "site-packages"]
        code = [name.removesuffix(".py") for name in files if name.endswith(".py")]
        if code:
            names.update(code, Path(at).relative_to(folder).parts)
        seen += len(files)
        if seen > _MOST_FILES:
            break
    return names
