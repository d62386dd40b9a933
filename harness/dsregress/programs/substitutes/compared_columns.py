"""Values with which a program compares a column: ``if "GSM" not in row["type"]: continue``. Made-up rows that never have one
would all be left out.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import NamedTuple

from dsregress.probe.border.own_code import is_own_file
from dsregress.programs.world.resource_errors import LIBRARIES


def with_compared_values(rows: Mapping[str, list[object]], frame: FrameType | None) -> dict[str, list[object]]:
    """Return rows of which every other one has, in columns of text, a value for which a comparison holds that is in the code
    which asks for them. ``frame`` is that of the call."""
    compared: dict[str, list[_Compared]] = {}
    for file in _files_of_callers(frame):
        for one in _compared_in(file):
            compared.setdefault(one.column, []).append(one)
    return {
        column: _mixed(values, compared[column])
        if column in compared and values and isinstance(values[0], str)
        else values
        for column, values in rows.items()
    }


class _Compared(NamedTuple):
    column: str
    text: str
    is_whole: bool  #: the column is compared with it, else it is looked for in the column


def _mixed(values: list[object], compared: list[_Compared]) -> list[object]:
    def value_for(row: int, own: object) -> object:
        one = compared[row // 2 % len(compared)]
        return own if row % 2 else one.text if one.is_whole else f"{one.text} {own}"

    return [value_for(row, own) for row, own in enumerate(values)]


def _files_of_callers(frame: FrameType | None) -> Iterator[str]:
    seen = set()
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if file not in seen and not file.startswith(LIBRARIES) and not is_own_file(file):
            seen.add(file)
            yield file
        frame = frame.f_back


@functools.cache
def _compared_in(file: str) -> tuple[_Compared, ...]:
    """Return the comparisons of a subscript with a text, in a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(dict.fromkeys(one for node in ast.walk(tree) for one in _compared_by(node)))


def _compared_by(node: ast.AST) -> Iterator[_Compared]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = node.left, node.comparators[0]
        is_of_parts = isinstance(node.ops[0], (ast.In, ast.NotIn)) and bool(_column(right))
        column = _column(right) if is_of_parts else _column(left) or _column(right)
        for text in (*_texts(left), *_texts(right)) if column else ():
            yield _Compared(column, text, is_whole=not is_of_parts)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
        column = _column(node.func.value)
        for text in _texts(node.args[0]) if column and node.args else ():
            yield _Compared(column, text, is_whole=False)


def _column(node: ast.AST) -> str:
    """Return the column of ``row["type"]``, also in ``row["type"].lower()``; empty for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        node = node.func.value
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return ""


def _texts(node: ast.AST) -> Iterator[str]:
    for each in node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else [node]:
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value:
            yield each.value
