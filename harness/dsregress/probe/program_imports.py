"""The files of a program and what they import, by their source alone. Standard library only: the host reads them before an
environment is built, a rank when a module is missing."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

#: Modules of an installed package that import another one.
_BEHIND = {"torch.utils.tensorboard": "tensorboard"}

_IS_MAIN = ("__name__ == '__main__'", "'__main__' == __name__")


def imports_of_files(
    files: Iterable[Path], folders: Sequence[str], is_missing: Callable[[str], bool]
) -> Iterator[tuple[Path, list[str]]]:
    """Yield each of these files, and of the program's that they import, with the top-level modules that it imports and for
    which ``is_missing`` returns True.

    ``folders`` are those of the program's own modules. Only statements that always run count: none within a function, an
    ``if`` or a ``try``, except for these files' own ``if __name__ == "__main__":``.
    """
    seen: set[Path] = set()
    left = list(files)
    run = frozenset(left)
    while left:
        file = left.pop()
        if file in seen:
            continue
        seen.add(file)
        lacking = []
        for module, level in _imported(file, is_run=file in run):
            own = _own_files_from(file, module, level, folders)
            left += own
            top = module.partition(".")[0]
            if not own and not level and is_missing(top):
                lacking.append(top)
        yield file, lacking


def all_imports(file: Path) -> set[str]:
    """Return the top-level modules that a file imports anywhere, except in a ``try``."""
    named = (each for statement in _import_statements(file) for each in _named_modules(statement))
    return {module.partition(".")[0] for module, level in named if not level}


def files_in_reach(files: Iterable[Path], folders: Sequence[str]) -> set[Path]:
    """Return these files and those of the program's that they import anywhere, except in a ``try``: a run takes some of
    them. ``folders`` are those of the program's own modules."""
    found: set[Path] = set()
    left = list(files)
    while left:
        file = left.pop()
        if file in found:
            continue
        found.add(file)
        for statement in _import_statements(file):
            for module, level in _named_modules(statement):
                left += _own_files_from(file, module, level, folders)
    return found


def own_files(module: str, folders: Sequence[str]) -> list[Path]:
    """Return the program's own files that an import of ``module`` runs; empty if it is not a module of the program."""
    found = []
    for folder in folders:
        path = Path(folder)
        for part in module.split("."):
            path = path / part
            found += [file for file in (path.with_name(f"{part}.py"), path / "__init__.py") if file.is_file()]
    return found


def _own_files_from(file: Path, module: str, level: int, folders: Sequence[str]) -> list[Path]:
    """Return the program's own files that an import in ``file`` runs. ``level``: the dots before the module's name."""
    above = [str(folder) for folder in file.absolute().parents[level - 1 : level]]  # none beyond the root
    return own_files(module, above if level else folders)


def _import_statements(file: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports of a file, except those in a ``try``."""
    try:
        left: list[ast.AST] = [ast.parse(file.read_bytes())]
    except (OSError, SyntaxError, ValueError):
        return
    while left:
        node = left.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif not isinstance(node, ast.Try):
            left += ast.iter_child_nodes(node)


def _named_modules(statement: ast.stmt) -> list[tuple[str, int]]:
    """Return (module, level) of each name that a statement imports; empty for one that imports nothing."""
    if isinstance(statement, ast.Import):
        return [(alias.name, 0) for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        start = [statement.module] if statement.module else []
        return [(".".join([*start, alias.name]), statement.level) for alias in statement.names]
    return []


def _imported(file: Path, *, is_run: bool) -> Iterator[tuple[str, int]]:
    """Yield (module, level): its name relative to the folder ``level`` levels above the file, or its absolute name if
    level is 0. ``is_run`` if the file is ``__main__``."""
    try:
        statements = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return
    for statement in (inner for outer in statements for inner in (_of_main(outer) if is_run else [outer])):
        named = _named_modules(statement)
        yield from named
        yield from (
            (behind, 0) for name, _ in named for of, behind in _BEHIND.items() if f"{name}.".startswith(f"{of}.")
        )


def _of_main(statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements that run in place of one in the file that is run."""
    if not isinstance(statement, ast.If) or ast.unparse(statement.test) not in _IS_MAIN:
        return [statement]
    return statement.body
