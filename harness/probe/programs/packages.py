"""Packages that a library asks for and that are not here.

Libraries leave out what their optional packages would give, and raise an error of their own words when a program needs it:
``LlamaTokenizer requires the SentencePiece library but it was not found in your environment``. Such an error says nothing of
a release. It is known by what it names: a package that it says to install, or a module that something tried to import, in
vain.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Sequence
from types import ModuleType

from harness.probe.programs import imports

#: ``pip install -U 'trl[vllm]>=0.9'``, of which ``trl`` counts. An option or an address has no such name.
_PIP_INSTALL = re.compile(r"pip3? install (?:-\S+ +)*[\"'`]?([A-Za-z]\w*(?:[.-]\w+)*)(?![\w+:/-])")
#: ``LlamaTokenizer requires the SentencePiece library but it was not found``, as transformers says of any of its packages.
_LIBRARY_NOT_FOUND = re.compile(r"requires the (?:\W+ )?([\w.-]+) library but it was not found")
_ADDRESS = re.compile(r"\b\w+://\S+")
_WORD = re.compile(r"[A-Za-z]\w*")


class AbsentModules:
    """A finder of ``sys.meta_path`` that finds nothing, and remembers for what it was asked: for what all others lack."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        self.names.add(name)


_ABSENT = AbsentModules()


def watch() -> None:
    """From now on, modules that are asked for in vain are remembered."""
    if _ABSENT not in sys.meta_path:
        sys.meta_path.append(_ABSENT)  # type: ignore[arg-type]  # it has nothing to load


def asked_for(error: BaseException) -> list[str]:
    """The packages that are not here and without which a library refuses, by its error or the one that caused it, by name.

    Empty where it is about something else: about a part that a release of a package lacks, or a package that is too old.
    """
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            break
        if found := _named(cause):
            return sorted(found)
        cause = cause.__cause__
    return []


#: A program may have made a circle of them.
_MOST_CAUSES = 20


def _named(error: BaseException) -> set[str]:
    if isinstance(error, ImportError) and error.name and not imports.is_missing(error.name):
        return set()  # "cannot import name 'x' from 'transformers'"
    text = _ADDRESS.sub("", str(error))
    if not isinstance(error, ImportError) and "install" not in text.lower():
        return set()
    said = {*_PIP_INSTALL.findall(text), *(name.lower() for name in _LIBRARY_NOT_FOUND.findall(text))}
    if absent := {name for name in said if not _is_here(name)}:
        return absent
    words = {word.lower() for word in _WORD.findall(text)}
    return {top for top in {name.partition(".")[0] for name in _ABSENT.names} if top in words and not _is_here(top)}


def _is_here(package: str) -> bool:
    """Whether it is installed, or a stand-in of its name is."""
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return not imports.is_missing(package.replace("-", "_"))
    return True
