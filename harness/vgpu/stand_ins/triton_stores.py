"""Finds what a Triton kernel writes, by its source: the parameters from which the addresses of its stores are computed.

A kernel cannot allocate, so its outputs are among its arguments. The distinction matters if a program knows the values of
the other arguments, as lengths of packed sequences, which many kernels read and Python reads again.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import textwrap
from collections.abc import Iterator
from types import FunctionType, ModuleType

#: Their first argument is an address; of a tensor descriptor's method, the address is the descriptor.
_WRITES = ("store", "atomic_", "scatter")
#: Their results were read from memory, and are no addresses derived from the argument.
_READS = ("load", "gather", "atomic_")


@functools.cache
def written(function: FunctionType) -> frozenset[str]:
    """Return the names of the parameters that a kernel, or a function that kernels call, writes through: all if its source
    cannot be read."""
    return _written(function, ())


def _written(function: FunctionType, callers: tuple[FunctionType, ...]) -> frozenset[str]:
    parameters = tuple(inspect.signature(function).parameters)
    body = _body(function)
    if body is None:
        return frozenset(parameters)
    if function in callers:
        return frozenset()  # what the outer call of itself finds
    addresses = [address for node in body for address in _addresses(node, function, (*callers, function))]
    made_of = _assignments(body)
    reached: set[str] = set()
    waiting = {name for address in addresses for name in _names_in(address)}
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= {other for value in made_of.get(name, ()) for other in _names_in(value)} - reached
    return frozenset(parameters) & reached


def _body(function: FunctionType) -> list[ast.AST] | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    definitions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [node for statement in definitions[0].body for node in ast.walk(statement)] if definitions else None


def _addresses(node: ast.AST, function: FunctionType, callers: tuple[FunctionType, ...]) -> Iterator[ast.expr]:
    """Yield the expressions through which a node of a kernel's source writes."""
    if not isinstance(node, ast.Call):
        return
    target, keywords = node.func, node.keywords
    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    if name.startswith(_WRITES):
        yield from node.args[:1]
        yield from [keyword.value for keyword in keywords if keyword.arg == "pointer"]
        if isinstance(target, ast.Attribute):
            yield target.value
        return
    called = _callee(function, target)
    inner = _function_of(called)
    if inner is not None:
        into = _written(inner, callers)
        yield from [value for name, value in zip(inspect.signature(inner).parameters, node.args) if name in into]
        yield from [keyword.value for keyword in keywords if keyword.arg is None or keyword.arg in into]
    elif called is None or "inline_asm" in name:
        yield from (*node.args, *[keyword.value for keyword in keywords])


def _callee(function: FunctionType, target: ast.expr) -> object:
    """Return the object that a call in a kernel calls; None if it is unknown, as for a function that is a parameter."""
    if isinstance(target, ast.Attribute):
        owner = _callee(function, target.value)
        return getattr(owner, target.attr, target) if isinstance(owner, ModuleType) else target  # or a value's method
    if not isinstance(target, ast.Name):
        return None
    variables = {**vars(builtins), **function.__globals__, **inspect.getclosurevars(function).nonlocals}
    return variables.get(target.id)


def _function_of(value: object) -> FunctionType | None:
    """Return the Python function inside one that Triton compiles; None for any other value."""
    inner = getattr(value, "fn", None)
    while inner is not None and not isinstance(inner, FunctionType):
        inner = getattr(inner, "fn", None)
    return inner


def _assignments(body: list[ast.AST]) -> dict[str, list[ast.expr]]:
    """Return, by name, every expression that the name is assigned from, in any order."""
    made_of: dict[str, list[ast.expr]] = {}
    for node in body:
        targets: list[ast.expr] = []
        value: ast.expr | None = None
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
            targets, value = [node.target], node.value
        elif isinstance(node, ast.For):
            targets, value = [node.target], node.iter
        if value is not None:
            for target in targets:
                for name in _names_in(target):
                    made_of.setdefault(name, []).append(value)
    return made_of


def _names_in(expression: ast.AST) -> Iterator[str]:
    """Yield the names in an expression, without those in the arguments of loads from memory."""
    if isinstance(expression, ast.Call):
        target = expression.func
        if (target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")).startswith(_READS):
            return
    if isinstance(expression, ast.Name):
        yield expression.id
    for child in ast.iter_child_nodes(expression):
        yield from _names_in(child)
