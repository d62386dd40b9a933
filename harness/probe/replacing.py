"""Attributes, functions, environment variables and the working folder that are others for a while. Standard library only.

What a block replaced is put back when it is left, in reverse order, whatever happened in it.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

from harness.probe.loaded import loaded_modules

_MISSING = object()

#: Module and qualified name of each function that was replaced -> the function in its place, by qualified name and code: the
#: originals are back when an error is looked at that a caller of a replacement has raised.
REPLACED: dict[tuple[str, str], tuple[str, CodeType]] = {}


class Patches(contextlib.ExitStack):
    """Many replacements, which end with one block."""

    def set(self, owner: Any, name: str, value: Any) -> None:
        """As `attribute`."""
        self.enter_context(attribute(owner, name, value))

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """As `set`, where this release has the attribute."""
        if hasattr(owner, name):
            self.set(owner, name, value)

    def everywhere(self, original: Callable[..., Any], replacement: Callable[..., Any], name: str) -> None:
        """As `everywhere`."""
        self.enter_context(everywhere(original, replacement, name))

    def method(self, owner: type, name: str, replacement: Callable[..., Any]) -> None:
        """Replaces a method, where this release has it: in its class, and `everywhere` that it is held under its name."""
        original = getattr(owner, name, None)
        if original is not None:
            self.set(owner, name, replacement)
            self.everywhere(original, replacement, name)


@contextlib.contextmanager
def attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Within, an attribute of a class or a module has another value, or is there at all."""
    before = vars(owner).get(name, _MISSING)  # its own: what is inherited comes back by itself
    _note(before, value)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


@contextlib.contextmanager
def everywhere(original: Callable[..., Any], replacement: Callable[..., Any], name: str) -> Iterator[None]:
    """Within, ``name`` is ``replacement`` in each module that has ``original`` under that name, as it is or bound to an
    object. A module that is imported within gets the replacement from those, and the original back with them."""
    _note(original, replacement)
    _swap(original, replacement, name)
    try:
        yield
    finally:
        _swap(replacement, original, name)


@contextlib.contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Within, environment variables have these values. At the end the environment is as it was, whatever set it."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def working_folder(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Within, the process works in this folder (``contextlib.chdir``, which Python has from 3.11 on)."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _note(original: Any, replacement: Any) -> None:
    if inspect.isclass(replacement):  # a call of it is one of its `__init__`
        _note(original.__init__ if inspect.isclass(original) else original, replacement.__init__)
    elif isinstance(replacement, FunctionType) and hasattr(original, "__qualname__"):
        place = (str(getattr(original, "__module__", "")), original.__qualname__)
        REPLACED[place] = (replacement.__qualname__, replacement.__code__)


def _swap(old: Callable[..., Any], new: Callable[..., Any], name: str) -> None:
    for _, _, names in loaded_modules():
        held = names.get(name)
        if held is old:
            names[name] = new
        elif isinstance(held, MethodType) and held.__func__ is old:
            names[name] = MethodType(new, held.__self__)
