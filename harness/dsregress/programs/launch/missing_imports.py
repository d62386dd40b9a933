"""Modules that a program will import and that its environment lacks: all of them, not only the first."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from dsregress.probe.program_imports import imports_of_files
from vgpu.no_stand_in import WITHOUT_STAND_IN


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
