"""Tells how a program asks for a name of a stand-in: by an import or an attribute that it writes, or by a question, as
``hasattr`` or an import in a ``try``, to which it takes no for an answer.

Read from the statement that the asking frame executes. Standard library only.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import linecache
from collections.abc import Iterable, Iterator
from types import FrameType

from vgpu.json_tables import decoded_entries, decoded_text, decoded_text_lists, table_beside

_TABLE = table_beside(__file__)
#: Instructions by which Python code names something (``LOAD_METHOD`` up to 3.11) -> the error where that is absent.
_OF_A_NAME = {name: decoded_text(error) for name, error in decoded_entries(_TABLE["error_of_a_name"]).items()}
#: Error -> its base classes. An attribute that is absent raises a NoStandInError.
_BASES = {name: frozenset(bases) for name, bases in decoded_text_lists(_TABLE["bases"]).items()}
#: Files of frames that only carry an import out.
_IMPORTING = "<frozen importlib"


def names_it(frame: FrameType) -> bool:
    """Return True if the code of ``frame``, or the import statement that it carries out, names what it asks for and could
    not go on without it; False for a question."""
    asking: FrameType | None = frame
    while asking is not None and asking.f_code.co_filename.startswith(_IMPORTING):
        asking = asking.f_back
    if asking is None:
        return False
    instruction = dis.opname[asking.f_code.co_code[asking.f_lasti]]
    if asking is not frame and instruction == "IMPORT_NAME":  # of ``from flash_attn import name``: Python asks ahead
        error = "ImportError" if frame.f_code.co_name == "_handle_fromlist" else "ModuleNotFoundError"
    elif asking is frame and instruction in _OF_A_NAME:
        error = _OF_A_NAME[instruction]
    else:
        return False
    return not _is_handled(error, asking)


def in_a_body(frame: FrameType) -> bool:
    """Return True if ``frame`` executes the body of a module or a class."""
    return not frame.f_code.co_flags & inspect.CO_OPTIMIZED


def _is_handled(error: str, frame: FrameType) -> bool:
    """Return True if a ``try`` around the current statement of ``frame`` handles the error, and goes on."""
    source = "".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals))
    return not _BASES[error].isdisjoint(_handled(source, frame.f_lineno or 0))


@functools.lru_cache(maxsize=64)
def _handled(source: str, line: int) -> frozenset[str]:
    """Return the names of the errors that are handled around a line of a file."""
    try:
        return _handled_in(ast.parse(source).body, line)
    except (SyntaxError, ValueError):
        return frozenset()


def _handled_in(statements: Iterable[ast.stmt], line: int) -> frozenset[str]:
    for statement in statements:
        if statement.lineno <= line <= (statement.end_lineno or line):
            own = _errors_of(statement, line)
            return own | frozenset().union(*(_handled_in(block, line) for block in _blocks(statement)))
    return frozenset()


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements within a statement, those of its handlers and cases too."""
    for part in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(block := getattr(part, name, None), list):
                yield block


def _errors_of(statement: ast.stmt, line: int) -> frozenset[str]:
    """Return the names of the errors that a statement handles for the lines of its body: a ``try`` whose handlers do not end
    with ``raise``, or ``with suppress(...)``."""
    if isinstance(statement, ast.Try) and line <= (statement.body[-1].end_lineno or line):
        kept = [handler for handler in statement.handlers if not isinstance(handler.body[-1], ast.Raise)]
        return frozenset(name for handler in kept for name in _last_names(handler.type))
    if isinstance(statement, ast.With):
        calls = [item.context_expr for item in statement.items if isinstance(item.context_expr, ast.Call)]
        return frozenset(
            name
            for call in calls
            if "suppress" in _last_names(call.func)
            for one in call.args
            for name in _last_names(one)
        )
    return frozenset()


def _last_names(expression: ast.expr | None) -> list[str]:
    """Return the last names of an expression's parts; a bare ``except`` has every error's base."""
    if expression is None:
        return ["BaseException"]
    if isinstance(expression, ast.Tuple):
        return [name for part in expression.elts for name in _last_names(part)]
    return [expression.attr] if isinstance(expression, ast.Attribute) else [getattr(expression, "id", "")]
