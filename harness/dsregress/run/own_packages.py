"""A project's own packages that have the name of a package of every stack: which of both its line imports.

A folder of the program comes before the environment, and one that it appends to ``sys.path`` after it. As the environment
of its README has only what the project requires, a package there that it does not require is its own; so is one whose
folder the README installs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dsregress.model import AXES
from dsregress.probe.module_packages import module_named, packages_by_module
from dsregress.probe.program_imports import all_imports
from dsregress.run.project_requirements import name_of_project, project_folders, project_text

_APPENDS = re.compile(r"sys\.path\.(?:append|extend)\b.*")
_MOST_FOLDERS = 2_000

#: Sources that are compiled into a module of Python.
_SOURCES_OF_EXTENSIONS = (".pyx", ".c", ".cpp", ".cu", ".rs")


class OwnPackage(NamedTuple):
    """A package of the project that is imported in place of the stack's."""

    name: str
    folder: str  #: in which it lies, relative to that of the line
    is_appended: bool  #: only the program's own path, or what its README installs, has the folder
    is_required: bool  #: the project requires the other one, too


class ProjectItself(NamedTuple):
    """The module of a project, which has the name of a package of an index."""

    module: str
    package: str
    folder: str  #: in which it lies, relative to that of the line


def project_itself(folder: Path, found: Iterable[str]) -> ProjectItself | None:
    """Return the module of the project in which ``folder`` lies, as of the examples of a library, unless one of the folders
    ``found``, which are searched, has it, its sources have to be compiled, or every stack has a release of it."""
    modules = {package: module for module, package in packages_by_module().items()}
    searched = {os.path.abspath(each) for each in found}
    for project in project_folders(folder):
        package = name_of_project(project)
        module = modules.get(package, module_named(package))
        for place in (project / "src", project):
            if not package or not (place / module / "__init__.py").is_file():
                continue
            if package in AXES or os.path.abspath(place) in searched or _is_compiled(place / module):
                return None
            return ProjectItself(module, package, os.path.relpath(place, folder))
    return None


def _is_compiled(package: Path) -> bool:
    files = (name for _, _, names in os.walk(package) for name in names)
    return any(name.endswith(_SOURCES_OF_EXTENSIONS) for name in files)


def own_packages(
    folder: Path,
    searched: Iterable[str],
    files: Collection[Path],
    required: Collection[str],
    installed: Collection[Path] = (),
) -> list[OwnPackage]:
    """Return the packages of the project in ``folder`` that its ``files`` import in place of those of every stack.
    ``searched`` are the folders that come before the environment, ``required`` the packages that the project requires, and
    ``installed`` the folders of those that it installs of itself."""
    imported = sorted({name for file in files for name in all_imports(file)} & {*AXES})
    if not imported:
        return []
    first = [Path(os.path.abspath(each)) for each in searched]
    appended = "\n".join(line for file in files for line in _APPENDS.findall(project_text(file)))
    found: dict[str, OwnPackage] = {}
    for place in (*first, *installed, *(_package_places(folder, imported) if appended else ())):
        relative = os.path.relpath(place, folder)
        for name in imported:
            if name in found or not _is_package(place / name):
                continue
            if place in first:
                found[name] = OwnPackage(name, relative, is_appended=False, is_required=name in required)
            elif place in installed:
                found[name] = OwnPackage(name, relative, is_appended=True, is_required=name in required)
            elif name not in required and all(
                re.search(rf"\b{re.escape(part)}\b", appended) for part in Path(relative).parts
            ):
                found[name] = OwnPackage(name, relative, is_appended=True, is_required=False)
    return [*found.values()]


def _package_places(folder: Path, names: Collection[str]) -> Iterator[Path]:
    for seen, (at, folders, _) in enumerate(os.walk(folder)):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "site-packages")
        if seen > _MOST_FOLDERS:
            return
        if any(_is_package(Path(at, name)) for name in names):
            yield Path(at)


def _is_package(path: Path) -> bool:
    return (path / "__init__.py").is_file() or path.with_suffix(".py").is_file()
