"""Modules that a program will import and that its environment lacks: all of them, not only the first."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

from dsregress.probe.border.own_code import is_own_file
from dsregress.probe.program_imports import imports_of_files
from dsregress.programs.world.resource_errors import LIBRARIES
from vgpu.error_chain import behind_one_another
from vgpu.no_stand_in import WITHOUT_STAND_IN

#: Missing where torch is built for the CPU, or where there is no GPU: this machine's lack.
_OF_A_GPU = (*WITHOUT_STAND_IN, "triton")


def missing_modules(files: Iterable[Path], folders: Sequence[str]) -> list[str]:
    """Return, sorted, the missing top-level modules without which these files, or files of the program that they import,
    cannot be loaded; see `imports_of_files`. Packages whose names are placeholders are not missing."""

    def lacks(module: str) -> bool:
        return module not in WITHOUT_STAND_IN and is_missing(module)

    return sorted({name for _, lacking in imports_of_files(files, folders, lacks) for name in lacking})


def reached_files(files: Iterable[Path], folders: Sequence[str]) -> list[Path]:
    """Return these files and those of the program that they import."""
    return [file for file, _ in imports_of_files(files, folders, lambda module: False)]


def is_missing(module: str | None) -> bool:
    """Return True if the whole package is missing; a submodule that a release no longer has is the release's fault."""
    top = str(module or "").partition(".")[0]
    return bool(top) and top not in sys.modules and importlib.util.find_spec(top) is None


def is_undeclared(error: BaseException) -> bool:
    """Return True if an installed package cannot be loaded, as one of its modules imports what none of its requirements
    brings: a fault of its release. A package that imports something only for a call, or that says in its own words what to
    install, leaves that to its user."""
    said = str(error)
    for one in behind_one_another(error):
        if isinstance(one, ModuleNotFoundError) and one.name and str(one) == f"No module named {one.name!r}":
            top = one.name.partition(".")[0]
            return str(one) in said and top not in _OF_A_GPU and is_missing(top) and _is_raised_by_a_package(one)
    return False


def _is_raised_by_a_package(error: ModuleNotFoundError) -> bool:
    """Return True if the import stands in the body of a module of an installed package."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    files = [(os.path.abspath(frame.f_code.co_filename), frame.f_code.co_name) for frame in frames]
    importing = [(file, name) for file, name in files if os.path.isfile(file) and not is_own_file(file)]
    if not importing:
        return False
    file, name = importing[-1]
    return name == "<module>" and file.startswith(LIBRARIES)
