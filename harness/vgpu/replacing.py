"""Temporary replacements of attributes, functions, environment variables and the working folder. Standard library only.

Replacements are undone when the block is left, in reverse order, whatever happened in it.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from vgpu.fault import BrokenPart
from vgpu.loaded import names_of_modules

_MISSING = object()

#: Module and qualified name of each function that was replaced -> the function in its place, by qualified name and code: the
#: originals are restored by the time that an error from a replacement's caller is examined.
REPLACED: dict[tuple[str, str], tuple[str, CodeType]] = {}


class MissingTarget(BrokenPart):
    """A name that the harness replaces in a package does not exist."""

    def __init__(self, owner: object, name: str) -> None:
        super().__init__(f"{_name_of(owner)} has no {name!r}, which the harness replaces")


@dataclass(frozen=True)
class LedgerRow:
    """A name of a package that this process has replaced, or that may be missing in its release and is."""

    owner: str
    name: str
    since: str
    until: str
    why: str
    is_gone: bool


#: All that was replaced in this process, by owner and name.
LEDGER: dict[tuple[str, str], LedgerRow] = {}

#: What is replaced now, by owner and name: the original and what is in its place.
IN_PLACE: dict[tuple[str, str], tuple[object, object]] = {}


class Patches(contextlib.ExitStack):
    """Many replacements, which end with one block. ``why`` is their reason, for the ledger."""

    def __init__(self, why: str = "") -> None:
        super().__init__()
        self._why = why

    def has(self, owner: object, name: str, *, since: str = "", until: str = "", absent: str = "") -> bool:
        """Return True if an attribute exists, and enter it in the ledger. Raise MissingTarget if it must exist and does not:
        a release has renamed it, and the function to replace would go on unreplaced.

        ``since`` and ``until`` name the releases that have it, as ``torch 2.6``: earlier ones than the first, and later ones
        than the second, may lack it. ``absent`` gives the reason why any release may.
        """
        exists = hasattr(owner, name)
        if not (exists or absent or _is_before(since) or _is_after(until)):
            raise MissingTarget(owner, name)
        self._enter(_name_of(owner), name, since, until, absent, is_gone=not exists)
        return exists

    def replace(self, owner: object, name: str, value: object, **may_lack_it: str) -> None:
        """Replace an attribute that must exist, unless ``may_lack_it`` says of a release that it may not: see `has`."""
        if self.has(owner, name, **may_lack_it):
            self._put_in_place(_name_of(owner), name, getattr(owner, name), value)
            self.enter_context(attribute(owner, name, value))

    def add(self, owner: object, name: str, value: object) -> None:
        """Set an attribute that not every build or object has."""
        self._enter(_name_of(owner), name, "", "", "", is_gone=False)
        self.enter_context(attribute(owner, name, value))

    def everywhere(self, original: Callable[..., object], replacement: Callable[..., object], name: str) -> None:
        """Replace a function as `everywhere` does."""
        module = str(getattr(original, "__module__", ""))
        self._enter(module, name, "", "", "", is_gone=False)
        self._put_in_place(module, name, original, replacement)
        self.enter_context(everywhere(original, replacement, name))

    def definition(self, owner: object, name: str, replacement: Callable[..., object], **may_lack_it: str) -> None:
        """Replace a method in its class, or a function in its module, and `everywhere` that it is held under its name. The
        rest is as in `replace`."""
        original = getattr(owner, name, None)
        self.replace(owner, name, replacement, **may_lack_it)
        if original is not None:
            self.enter_context(everywhere(original, replacement, name))

    def _put_in_place(self, owner: str, name: str, original: object, replacement: object) -> None:
        self.enter_context(item(IN_PLACE, (owner, name), (original, replacement)))

    def _enter(self, owner: str, name: str, since: str, until: str, absent: str, *, is_gone: bool) -> None:
        if (owner, name) in LEDGER and not (since or until or absent):
            return  # its releases are known
        why = "; ".join(filter(None, (self._why, absent)))
        LEDGER[owner, name] = LedgerRow(owner, name, since, until, why, is_gone)


def _name_of(owner: object) -> str:
    name = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", None) or type(owner).__qualname__
    module = getattr(owner, "__module__", None)
    return f"{module}.{name}" if isinstance(module, str) else str(name)


@contextlib.contextmanager
def attribute(owner: object, name: str, value: object) -> Iterator[None]:
    """Replace an attribute of a class or a module, or add it, within the block."""
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
def item(mapping: MutableMapping[Any, Any], key: object, value: object) -> Iterator[None]:
    """Replace a key's value in a mapping, or add the key, within the block."""
    before = mapping.get(key, _MISSING)
    mapping[key] = value
    try:
        yield
    finally:
        if before is _MISSING:
            mapping.pop(key, None)
        else:
            mapping[key] = before


@contextlib.contextmanager
def everywhere(original: Callable[..., object], replacement: Callable[..., object], name: str) -> Iterator[None]:
    """Replace ``original`` within the block in each module that has it as ``name``, as it is or bound to an object. A module
    imported within the block gets the replacement from those, and the original back with them."""
    _note(original, replacement)
    _swap(original, replacement, name)
    try:
        yield
    finally:
        _swap(replacement, original, name)


@contextlib.contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within the block. At the end the environment is as before, whatever changed it."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def working_folder(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Work in this folder within the block (``contextlib.chdir``, which Python has from 3.11 on)."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _note(original: object, replacement: object) -> None:
    called: object = replacement.__init__ if inspect.isclass(replacement) else replacement
    if isinstance(called, FunctionType) and hasattr(original, "__qualname__"):
        name = f"{original.__qualname__}.__init__" if inspect.isclass(original) else original.__qualname__
        REPLACED[str(getattr(original, "__module__", "")), name] = (called.__qualname__, called.__code__)


def _swap(old: Callable[..., object], new: Callable[..., object], name: str) -> None:
    for names in names_of_modules():
        held = names.get(name)
        if held is old:
            names[name] = new
        elif isinstance(held, MethodType) and held.__func__ is old:
            names[name] = MethodType(new, held.__self__)


def _is_before(since: str) -> bool:
    """Return True if the installed package is older than a release of it, as ``torch 2.6``."""
    package, _, release = since.partition(" ")
    return bool(since) and _installed(package) < _parts(release)


def _is_after(until: str) -> bool:
    package, _, release = until.partition(" ")
    return bool(until) and _installed(package)[: len(_parts(release))] > _parts(release)


def _installed(package: str) -> tuple[int, ...]:
    return _parts(sys.modules[package].__version__)


def _parts(release: str) -> tuple[int, ...]:
    """Return the numbers of a release: ``2.15.0a0+git`` is (2, 15, 0)."""
    found = re.match(r"\d+(\.\d+)*", release)
    return tuple(int(part) for part in found.group().split(".")) if found else ()
