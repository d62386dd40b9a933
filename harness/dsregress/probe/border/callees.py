"""Finds the function, class or object that one of Python's errors is about, and tells the probe's files from others.
Standard library only."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dsregress.probe.border import encoding
from dsregress.probe.border.own_code import PACKAGE_FOLDERS, PACKAGES, SOURCES, is_own_file, is_own_module
from vgpu.loaded import loaded_modules
from vgpu.replacing import REPLACED

#: How Python reports a refused call, to its caller: ``OrderedGloo.__init__() got an unexpected keyword argument 'x'``.
_REFUSED_CALL = re.compile(
    r"^([\w.<>]+)\(\) (?:got an unexpected keyword argument|got multiple values for|got some positional-only"
    r"|missing \d+ required|takes \d+ positional|takes from \d+ to \d+ positional|takes no )"
)

_LOCALS = "<locals>"


def place_of(file: str, line: int) -> str:
    """Return the place of a line of ours: ``vgpu/meters/meter.py:12``."""
    return f"{Path(file).relative_to(SOURCES)}:{line}"


def is_ours(found: object) -> bool:
    """Return True if a module, a class, a function or another object is the probe's, or its stand-in."""
    if isinstance(found, types.ModuleType):
        loader = getattr(vars(found).get("__spec__"), "loader", None)
        return _is_our_name(type(loader).__module__) or is_own_file(str(vars(found).get("__file__")))
    if (code := _code_of(found)) is not None:
        is_generated = code.co_filename.startswith("<")  # a dataclass's methods
        return is_own_file(code.co_filename) or (is_generated and _is_our_name(getattr(found, "__module__", "")))
    kind = found if isinstance(found, type) else type(found)
    return any(map(_is_our_name, (kind.__module__, type(kind).__module__))) or _is_our_stand_in(kind.__module__)


def named_by(error: BaseException) -> str:
    """Return the place of the object of ours that lacks an argument or attribute that ``error`` reports; empty if the error
    is another one, or is not about an object of ours."""
    if isinstance(error, AttributeError) and getattr(error, "obj", None) is not None:
        return _definition(error.obj) if is_ours(error.obj) else ""
    refused = _REFUSED_CALL.match(encoding.bounded_text(error)) if type(error) is TypeError else None
    if refused is None:
        return ""
    frame, line = list(_walked(error))[-1] if error.__traceback__ is not None else (None, 0)
    if frame is None:
        return ""
    called = _called_object(frame, line, refused[1])
    if not is_own_file(frame.f_code.co_filename):
        called = _in_place_of(called, refused[1])
    if called is None:
        called = _by_name(refused[1])
    return _definition(called) if called is not None and is_ours(called) else ""


def package_called(error: BaseException) -> str:
    """Return the installed package whose object does not take a call, or lacks an attribute, as ``error`` reports; empty if
    the error is another one, or that object is of no installed package."""
    if isinstance(error, AttributeError):
        return _installed_package(getattr(error, "obj", None))
    refused = _REFUSED_CALL.match(encoding.bounded_text(error)) if type(error) is TypeError else None
    frame, line = list(_walked(error))[-1] if error.__traceback__ is not None else (None, 0)
    if refused is None or frame is None:
        return ""
    return _installed_package(_called_object(frame, line, refused[1]))


def _installed_package(found: object) -> str:
    kind = found if isinstance(found, (type, types.ModuleType, types.FunctionType)) else type(found)
    name = kind.__name__ if isinstance(kind, types.ModuleType) else str(kind.__module__)
    module = sys.modules.get(name) if name != "__main__" else None  # which is what started this process
    file = str(getattr(module, "__file__", None) or "").replace("\\", "/")
    return name.partition(".")[0] if any(folder in file for folder in PACKAGE_FOLDERS) else ""


def _called_object(frame: types.FrameType, line: int, name: str) -> object:
    """Return the object that a frame's statement called under ``name``; None if that cannot be told without calling
    anything."""
    for expression in _calls(frame.f_code.co_filename, line):
        if (found := _refusing(value_in_frame(expression, frame), name)) is not None:
            return found
    return None


def _walked(error: BaseException) -> Iterator[tuple[types.FrameType, int]]:
    traced = error.__traceback__
    while traced is not None:
        yield traced.tb_frame, traced.tb_lineno
        traced = traced.tb_next


def _calls(file: str, line: int) -> Iterator[ast.expr]:
    """Yield the expressions called by the statements at a line of a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno):
            yield node.func


def value_in_frame(expression: ast.expr, frame: types.FrameType) -> object:
    """Return the value of a name, or of an attribute of one; None without one."""
    if isinstance(expression, ast.Name):
        scopes: tuple[Mapping[str, Any], ...] = (frame.f_locals, frame.f_globals, frame.f_builtins)
        return next((scope[expression.id] for scope in scopes if expression.id in scope), None)
    if isinstance(expression, ast.Attribute):
        owner = value_in_frame(expression.value, frame)
        try:
            return None if owner is None else getattr(owner, expression.attr, None)
        except Exception:  # a property of a framework's object may raise anything
            return None
    return None


def _refusing(called: object, name: str) -> object:
    """Return the part of a callable that refuses a call under that name: a function, a method or a class; None if none has
    it."""
    called = _unbound(called)
    if isinstance(called, type):
        refusing = (*(getattr(called, method, None) for method in ("__init__", "__new__")), type(called).__call__)
    else:
        refusing = (inspect.getattr_static(type(called), "__call__", None),)
    candidates = [called, *refusing]
    return next((one for one in candidates if getattr(one, "__qualname__", None) == name), None)


def _in_place_of(called: object, name: str) -> object:
    """Return the code that a patch had put in the place of ``called``, by now restored, under ``name``; ``called`` itself if
    none had."""
    place = (getattr(called, "__module__", None), getattr(called, "__qualname__", None))
    at_once = [REPLACED[place]] if place in REPLACED else REPLACED.values() if called is None else ()
    return next((code for replacement, code in at_once if replacement == name), called)


def _by_name(name: str) -> object:
    """Return the object with that qualified name, if every object with it is ours; None if none exists, or others have it as
    well."""
    first, *rest = name.split(".")
    found = []
    for _, _, names in loaded_modules():
        if (held := names.get(first)) is not None:
            found.append(_below(held, rest))
    known = [each for each in found if each is not None]
    return known[0] if known and all(is_ours(each) for each in known) else None


def _below(held: object, path: list[str]) -> object:
    """Return the member of a class or a function by its path: ``["__init__"]``, ``["<locals>", "replacement"]``; None
    without one."""
    for name in path:
        if isinstance(held, type):
            held = inspect.getattr_static(held, name, None)
        elif name != _LOCALS:
            code = (
                held if isinstance(held, types.CodeType) else _code_of(inspect.unwrap(held) if callable(held) else held)
            )
            within = [each for each in code.co_consts if isinstance(each, types.CodeType)] if code is not None else []
            held = next((each for each in within if each.co_name == name), None)
        if held is None:
            return None
    return held


def _unbound(called: object) -> object:
    while isinstance(called, (functools.partial, types.MethodType, staticmethod, classmethod)):
        called = called.func if isinstance(called, functools.partial) else called.__func__
    return called


def _code_of(found: object) -> types.CodeType | None:
    found = _unbound(found)
    if isinstance(found, types.CodeType):
        return found
    return found.__code__ if isinstance(found, types.FunctionType) else None


def _is_our_name(module: object) -> bool:
    return isinstance(module, str) and is_own_module(module)


def _is_our_stand_in(module: object) -> bool:
    # A program's classes are of ``__main__`` as well, and when it has failed that is our own script again.
    found = sys.modules.get(module) if isinstance(module, str) and module != "__main__" else None
    return isinstance(found, types.ModuleType) and is_ours(found)


def _definition(found: object) -> str:
    """Return the place where an object is defined, as far as that is known."""
    if (code := _code_of(found)) is not None and is_own_file(code.co_filename):
        return place_of(code.co_filename, code.co_firstlineno)
    kind = found if isinstance(found, (type, types.ModuleType, types.FunctionType)) else type(found)
    module = kind if isinstance(kind, types.ModuleType) else sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None) or ""
    if not is_own_file(file):
        return PACKAGES[0].replace(".", "/")
    line = 1
    if isinstance(kind, type):
        try:
            line = inspect.getsourcelines(kind)[1]
        except (OSError, TypeError):
            pass
    return place_of(file, line)
