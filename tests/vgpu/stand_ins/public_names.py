"""Writes ``public_names.json``: by release, the names of the modules of packages of kernels.

    python tests/vgpu/stand_ins/public_names.py NAME=RELEASE=PATH...

A path is a wheel, or a folder that holds the package, such as that of a source distribution or a repository at a tag.
"""

from __future__ import annotations

import ast
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")
#: Parts of modules that no program imports.
_LEFT_OUT = frozenset((
    "tests", "test", "benchmarks", "tools", "third_party", "jax", "debug", "common", "backends", "cute", "gluon",
))  # fmt: skip
_DEEPEST = 4


def names_by_module(package: str, path: Path) -> dict[str, str]:
    """Return, by public module, the classes, functions and imported names that its file binds at its top: also private ones
    of an interface, which other packages import."""
    found = {}
    for file, text in _sources(path):
        parts = [*file.with_suffix("").parts]
        if parts[-1] == "__init__":
            del parts[-1]
        is_public = not any(part.startswith("_") for part in parts) and len(parts) <= _DEEPEST
        if parts[:1] != [package] or not is_public or not _LEFT_OUT.isdisjoint(parts):
            continue
        bound = {name for name in _bound(ast.parse(text).body, package) if name[0] != "_" or "interface" in parts[-1]}
        if names := sorted(bound - {"annotations"}):
            found[".".join(parts)] = " ".join(names)
    return dict(sorted(found.items()))


def _sources(path: Path) -> Iterator[tuple[Path, str]]:
    if path.is_dir():
        yield from ((file.relative_to(path), file.read_text("utf-8")) for file in sorted(path.rglob("*.py")))
        return
    with zipfile.ZipFile(path) as wheel:
        yield from ((Path(name), wheel.read(name).decode()) for name in wheel.namelist() if name.endswith(".py"))


def _bound(statements: list[ast.stmt], own: str) -> Iterator[str]:
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            yield statement.name
        elif isinstance(statement, ast.ImportFrom) and (statement.level or str(statement.module).startswith(own)):
            yield from (alias.asname or alias.name for alias in statement.names if alias.name != "*")
        elif isinstance(statement, (ast.If, ast.Try)):
            yield from _bound([*statement.body, *statement.orelse], own)


if __name__ == "__main__":
    releases = {}
    for word in sys.argv[1:]:
        package, release, path = word.split("=", 2)
        releases[f"{package} {release}"] = names_by_module(package, Path(path))
    FILE.write_text(json.dumps(releases, indent=0, separators=(",", ":")) + "\n")
