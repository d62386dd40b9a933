"""Releases that a program's own files ask for when they are imported: ``assert timm.__version__ == "0.3.2"``,
``if datasets.__version__ != "2.16.1": raise``, ``require_version("peft==0.6.2")``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from copy import copy
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from dsregress.run.project_requirements import DeclaredRequirement

#: Comparisons of an assertion as a specifier, and those of a condition under which an error is raised.
_HOLDS: dict[type[ast.cmpop], str] = {ast.Eq: "==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_RAISES: dict[type[ast.cmpop], str] = {ast.NotEq: "==", ast.GtE: "<", ast.Gt: "<=", ast.LtE: ">", ast.Lt: ">="}

_MODULE = re.compile(r"(?:[\w.]*\()?(\w+)\.__version__\)?")


def asserted_requirements(files: Iterable[Path]) -> Iterator[DeclaredRequirement]:
    """Yield what these files require of modules when they are imported, by the names of the modules."""
    for file in files:
        try:
            statements = ast.parse(file.read_bytes()).body
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        for text in filter(None, map(_asserted, statements)):
            try:
                yield DeclaredRequirement(Requirement(text), file.name)
            except InvalidRequirement:
                continue


def within_asserted(declared: DeclaredRequirement | None, asserted: DeclaredRequirement) -> DeclaredRequirement:
    """Return what a project requires of a package of which its code asserts a release: its own pin if the assertion allows
    it (``trl==0.7.2`` beside ``require_version("trl>=0.5.0")``), the asserted one if not, else both limits."""
    if declared is None or asserted.pin:
        return asserted
    limits = asserted.requirement.specifier
    if declared.pin:
        return declared if limits.contains(declared.pin, prereleases=True) else asserted
    both = copy(declared.requirement)
    both.specifier = declared.requirement.specifier & limits
    return DeclaredRequirement(both, declared.file)


def _asserted(statement: ast.stmt) -> str:
    """Return the requirement of a statement; empty if it states none."""
    if isinstance(statement, ast.Assert):
        return _compared(statement.test, _HOLDS)
    if isinstance(statement, ast.If) and isinstance(statement.body[0], ast.Raise):
        return _compared(statement.test, _RAISES)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("require_version") and call.args:
        return _literal(call.args[0])
    return ""


def _compared(test: ast.expr, operators: dict[type[ast.cmpop], str]) -> str:
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return ""
    module, operator = _MODULE.fullmatch(ast.unparse(test.left)), operators.get(type(test.ops[0]), "")
    (right,) = test.comparators
    if isinstance(right, ast.Call) and len(right.args) == 1:  # version.parse("2.0")
        right = right.args[0]
    release = _literal(right)
    return f"{module[1]}{operator}{release}" if module and operator and release else ""


def _literal(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
