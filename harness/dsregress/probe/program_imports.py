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
            above = [str(folder) for folder in file.absolute().parents[level - 1 : level]]  # none beyond the root
            own = own_files(module, above if level else folders)
            left += own
            top = module.partition(".")[0]
            if not own and not level and is_missing(top):
                lacking.append(top)
        yield file, lacking


def all_imports(file: Path) -> set[str]:
    """Return the top-level modules that a file imports anywhere, except in a ``try``."""
    try:
        left: list[ast.AST] = [ast.parse(file.read_bytes())]
    except (OSError, SyntaxError, ValueError):
        return set()
    found: set[str] = set()
    while left:
        node = left.pop()
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(str(node.module).partition(".")[0])
        elif not isinstance(node, ast.Try):
            left += ast.iter_child_nodes(node)
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


def _imported(file: Path, *, is_run: bool) -> Iterator[tuple[str, int]]:
    """Yield (module, level): its name relative to the folder ``level`` levels above the file, or its absolute name if
    level is 0. ``is_run`` if the file is ``__main__``."""
    try:
        statements = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return
    for statement in (inner for outer in statements for inner in (_of_main(outer) if is_run else [outer])):
        if isinstance(statement, ast.Import):
            named = [(alias.name, 0) for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            start = [statement.module] if statement.module else []
            named = [(".".join([*start, alias.name]), statement.level) for alias in statement.names]
        else:
            continue
        yield from named
        yield from (
            (behind, 0) for name, _ in named for of, behind in _BEHIND.items() if f"{name}.".startswith(f"{of}.")
        )


def _of_main(statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements that run in place of one in the file that is run."""
    if not isinstance(statement, ast.If) or ast.unparse(statement.test) not in _IS_MAIN:
        return [statement]
    return statement.body
