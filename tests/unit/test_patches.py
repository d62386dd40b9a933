"""Packages are patched in one way: through `vgpu.replacing.Patches`, with a reason, and a missing target is an error."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.sources import parsed
from tests.paths import SOURCE

FILES = [
    file
    for folder in (SOURCE / "dsregress" / "probe", SOURCE / "dsregress" / "programs", SOURCE / "vgpu")
    for file in sorted(folder.rglob("*.py"))
    if file.name != "replacing.py"
]

#: file -> why it sets attributes of modules by itself.
SETS_ATTRIBUTES = {
    "vgpu/stand_ins/finder.py": "fills modules of its own",
    "vgpu/stand_ins/liger_models.py": "does to transformers what liger_kernel does",
}

#: Methods of `Patches` whose first arguments are the owner and the name.
REPLACING = {"replace", "definition"}


def name(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def probed(tree: ast.AST) -> set[str]:
    """``owner, "name"`` of each ``hasattr(owner, "name")`` and of each ``getattr`` with a default."""
    found = set()
    for call in calls(tree):
        function = call.func.id if isinstance(call.func, ast.Name) else ""
        if function == "hasattr" or (function == "getattr" and len(call.args) == 3):
            found.add(", ".join(ast.unparse(argument) for argument in call.args[:2]))
    return found


def replaced(tree: ast.AST) -> set[str]:
    return {
        ", ".join(ast.unparse(argument) for argument in call.args[:2])
        for call in calls(tree)
        if isinstance(call.func, ast.Attribute) and call.func.attr in REPLACING and len(call.args) >= 3
    }


@pytest.mark.parametrize("file", FILES, ids=name)
def test_every_block_of_patches_has_a_reason(file: Path) -> None:
    for call in calls(parsed(file)):
        if isinstance(call.func, ast.Name) and call.func.id == "Patches":
            assert call.args, f"{name(file)}:{call.lineno}: say why in Patches(...)"


@pytest.mark.parametrize("file", FILES, ids=name)
def test_no_target_is_skipped_in_silence(file: Path) -> None:
    """``if hasattr(owner, name): patches.replace(owner, name, ...)`` goes on unpatched in a release that renamed it."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.FunctionDef):
            silent = probed(node) & replaced(node)
            assert not silent, f"{name(file)}:{node.lineno}: give `since`, `until` or `absent` for {silent}"


@pytest.mark.parametrize("file", FILES, ids=name)
def test_modules_are_changed_by_patches_alone(file: Path) -> None:
    tree = parsed(file)
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found = []
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            root: ast.expr = target
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(target, ast.Attribute) and isinstance(root, ast.Name) and root.id in imported - own - {"sys"}:
                found.append(f"{name(file)}:{node.lineno}: {ast.unparse(target)}")
    assert found == [] or name(file) in SETS_ATTRIBUTES
