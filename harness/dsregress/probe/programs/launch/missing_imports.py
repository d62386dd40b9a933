"""Modules that a program will import and that its environment lacks: all of them, not only the first."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from vgpu.no_stand_in import WITHOUT_STAND_IN


def missing_modules(files: Iterable[Path], folders: Sequence[str]) -> list[str]:
    """Return, sorted, the missing top-level modules without which these files, or files of the program that they import,
    cannot be loaded.

    ``folders`` are those of the program's own modules. Only statements that always run count: none within a function, an
    ``if`` or a ``try``.
    """
    return sorted({name for _, lacking in _reached(files, folders) for name in lacking})


def reached_files(files: Iterable[Path], folders: Sequence[str]) -> list[Path]:
    """Return these files and those of the program that they import."""
    return [file for file, _ in _reached(files, folders)]


def _reached(files: Iterable[Path], folders: Sequence[str]) -> Iterator[tuple[Path, list[str]]]:
    """Yield each file with the missing top-level modules that it imports."""
    seen: set[Path] = set()
    left = list(files)
    while left:
        file = left.pop()
        if file in seen:
            continue
        seen.add(file)
        lacking = []
        for module, level in _imported(file):
            above = [str(folder) for folder in file.absolute().parents[level - 1 : level]]  # none beyond the root
            own = own_files(module, above if level else folders)
            left += own
            top = module.partition(".")[0]
            if not own and not level and top not in WITHOUT_STAND_IN and is_missing(top):
                lacking.append(top)
        yield file, lacking


def own_files(module: str, folders: Sequence[str]) -> list[Path]:
    """Return the program's own files that an import of ``module`` runs; empty if it is not a module of the program."""
    found = []
    for folder in folders:
        path = Path(folder)
        for part in module.split("."):
            path = path / part
            found += [file for file in (path.with_name(f"{part}.py"), path / "__init__.py") if file.is_file()]
    return found


def is_missing(module: str | None) -> bool:
    """Return True if the whole package is missing; a submodule that a release no longer has is the release's fault."""
    top = str(module or "").partition(".")[0]
    return bool(top) and top not in sys.modules and importlib.util.find_spec(top) is None


def _imported(file: Path) -> Iterator[tuple[str, int]]:
    """Yield (module, level): its name relative to the folder ``level`` levels above the file, or its absolute name if
    level is 0."""
    try:
        statements = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return
    for statement in statements:
        if isinstance(statement, ast.Import):
            yield from ((alias.name, 0) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            start = [statement.module] if statement.module else []
            yield from ((".".join([*start, alias.name]), statement.level) for alias in statement.names)
