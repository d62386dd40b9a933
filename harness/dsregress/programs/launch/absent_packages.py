"""Missing packages that a library needs.

Libraries leave out what their optional packages would provide, and raise an error in their own words when a program
needs it: ``LlamaTokenizer requires the SentencePiece library but it was not found in your environment``. Such an error
says nothing about a release. It is recognized by what it names: a package that it says to install, or a module that
failed to import.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType

from dsregress.probe.module_packages import packages_by_module
from dsregress.programs.launch import missing_imports

#: ``pip install -U 'trl[vllm]>=0.9'``, of which ``trl`` is the match. Options and addresses do not match.
_PIP_INSTALL = re.compile(r"pip3? install (?:-\S+ +)*[\"'`]?([A-Za-z]\w*(?:[.-]\w+)*)(?![\w+:/-])(?:\[([\w, -]+)\])?")
#: A requirement of an extra: ``docstring-parser>=0.15; extra == "signatures"``, ``arrow ==1.3.0 ; extra == 'app'``.
_OF_AN_EXTRA = re.compile(
    r"([A-Za-z][\w.-]*)(?:\[([\w, -]+)\])?\s*\(?(?:==(?P<pin>[\w.]+))?.*;.*extra\s*==\s*['\"](?P<extra>[\w-]+)['\"]"
)
#: ``LlamaTokenizer requires the SentencePiece library but it was not found``: transformers' wording for all its packages.
_LIBRARY_NOT_FOUND = re.compile(r"requires the (?:\W+ )?([\w.-]+) library but it was not found")
#: What transformers asks for next: its processors of images are made of both.
_WITH = {"pillow": "torchvision"}
#: ``Neither `tensorboard` nor `tensorboardX` is available``, of which the first one will do.
_ONE_OF_TWO = re.compile(r"([Nn]either \W*\w+\W*) nor \W*\w+")
#: What a package says without a library of the system, and the package that brings one.
_LIBRARIES = {"cannot load MPI library": "mpich"}
#: The module in which transformers makes a fast tokenizer of a SentencePiece model, and the packages that read one: without
#: them it fails in words about something else.
_CONVERTER, _READ_MODELS = "transformers.convert_slow_tokenizer", ("sentencepiece", "protobuf")
_ADDRESS = re.compile(r"\b\w+://\S+")
_WORD = re.compile(r"[A-Za-z]\w*")


class AbsentModules:
    """A finder of ``sys.meta_path`` that finds nothing and records the names for which it is called: those that no other
    finder has."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Record the name, and find nothing."""
        self.names.add(name)


_ABSENT = AbsentModules()


def watch_absence() -> None:
    """Record from now on the modules that cannot be found."""
    if _ABSENT not in sys.meta_path:
        sys.meta_path.append(_ABSENT)  # type: ignore[arg-type]  # it has nothing to load


def packages_asked_for(error: BaseException) -> list[str]:
    """Return the missing packages without which a library refuses, according to its error or the cause of that, by name;
    those that an extra pins as ``lightning-cloud=0.5.52``.

    Empty if the error is about something else: a part that a release of a package lacks, or a package that is too old.
    """
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            break
        if found := _missing_packages(cause):
            return sorted(found)
        cause = cause.__cause__
    return []


#: The chain of causes may be a circle.
_MOST_CAUSES = 20


def _missing_packages(error: BaseException) -> set[str]:
    if isinstance(error, ImportError) and error.name and not missing_imports.is_missing(error.name):
        return set()  # "cannot import name 'x' from 'transformers'"
    for complaint, brings in _LIBRARIES.items():
        if complaint in str(error) and not _is_here(brings):
            return {brings}
    if _is_raised_through(_CONVERTER, error) and (absent := {one for one in _READ_MODELS if not _is_here(one)}):
        return absent
    text = _ONE_OF_TWO.sub(r"\1", _ADDRESS.sub("", str(error)))
    if not isinstance(error, ImportError) and "install" not in text.lower():
        return set()
    installed = _PIP_INSTALL.findall(text)
    libraries = {_package(name) for name in _LIBRARY_NOT_FOUND.findall(text)}
    said = {*(name for name, _ in installed), *libraries, *(_WITH[name] for name in libraries & _WITH.keys())}
    absent = {name for name in said if not _is_here(name)}
    if absent := absent or {needed for name, extras in installed for needed in _of_extras(name, _listed(extras))}:
        return absent
    words = {word.lower() for word in _WORD.findall(text)}
    return {top for top in {name.partition(".")[0] for name in _ABSENT.names} if top in words and not _is_here(top)}


def _is_raised_through(module: str, error: BaseException) -> bool:
    return any(frame.f_globals.get("__name__") == module for frame, _ in traceback.walk_tb(error.__traceback__))


def _listed(extras: str) -> frozenset[str]:
    return frozenset(extra.strip() for extra in extras.split(",") if extra.strip())


def _of_extras(package: str, extras: frozenset[str]) -> set[str]:
    """Return the missing packages of an installed package's extras, with their pins."""
    found: set[str] = set()
    for text in importlib.metadata.requires(package) or [] if extras else []:
        needed = _OF_AN_EXTRA.match(text)
        if needed is None or needed["extra"] not in extras:
            continue
        if needed[1].lower() == package.lower():
            found |= _of_extras(package, _listed(needed[2] or "") - extras)
        elif not _is_here(needed[1]):
            found.add(f"{needed[1]}={needed['pin']}" if needed["pin"] else needed[1])
    return found


def _package(library: str) -> str:
    """Return the package with a library's name in any case: ``pillow`` for PIL."""
    packages = {module.lower(): package for module, package in packages_by_module().items()}
    return packages.get(library.lower(), library.lower())


def _is_here(package: str) -> bool:
    """Return True if the package or a stand-in of its name is installed."""
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return not missing_imports.is_missing(package.replace("-", "_"))
    return True
