"""Finds how far beyond the folder of its launch line a program reaches by ``..``. Standard library only: the host needs it
too.

Many projects are launched in one of their folders (``cd training; deepspeed main.py``), and find their modules and data next
to it: ``sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir))``, ``open("../data/train.json")``. A run's copy
of only the launch folder would lack them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

#: Folders beyond that of the line, at most.
_MOST = 3

#: ``data: ../../rows.json`` in a file of settings, whose paths begin where the program is launched.
_SET = re.compile(r"[:=]\s*[\"']?(\.\.(?:/\.\.)*)/")
_SETTINGS = (".yaml", ".yml", ".toml")

#: ``"../../data"``, and each ``os.pardir`` of a line.
_DOTS = re.compile(r"(?<=['\"/])\.\.(?:/\.\.)*(?=[/'\"])")
_PARDIR = re.compile(r"\b(?:os|path)\.pardir\b")
#: ``Path(__file__).parent.parent``, ``parents[1]`` and ``dirname(dirname(__file__))`` are one folder above that of the file.
_PARENTS = re.compile(r"(?:\.parent\b(?!s)){2,}")
_NUMBERED = re.compile(r"\.parents\[(\d)\]")
_DIRNAME = re.compile(r"\bdirname\(")

_REPOSITORY = (".git", ".hg", ".svn")


def surrounding_folder(folder: Path, files: Iterable[Path]) -> Path:
    """Return the folder that contains everything that these ``files`` below ``folder`` reach by ``..``, as far as their text
    says; ``folder`` itself if they reach nothing beyond it. Never one above a repository, nor the user's home or one above
    it."""
    folder = Path(os.path.realpath(folder))
    above = list(folders_above(folder))
    levels = 0
    for file in files if above else ():
        if file.suffix in _SETTINGS:
            levels = max(levels, _reach(file, _reach_of_setting))
        elif file.suffix == ".py":
            depth = len(Path(os.path.relpath(os.path.realpath(file.parent), folder)).parts)
            levels = max(levels, _reach(file, _reach_of_line) - depth)
        if levels >= len(above):
            break
    return ([folder, *above])[min(levels, len(above))]


def folders_above(folder: Path) -> Iterator[Path]:
    """Yield the folders above it that may be copied with it, from the inside out."""
    home = Path(os.path.realpath(os.path.expanduser("~")))
    at = folder
    for _ in range(_MOST):
        if any((at / name).exists() for name in _REPOSITORY):
            return
        at = at.parent
        if at in (home, *home.parents) or len(at.parts) < 3:
            return
        yield at


def _reach(file: Path, reach_of_line: Callable[[str], int]) -> int:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return max((reach_of_line(line) for line in text.splitlines()), default=0)


def _reach_of_setting(line: str) -> int:
    return 0 if line.lstrip().startswith("#") else max((up.count("..") for up in _SET.findall(line)), default=0)


def _reach_of_line(line: str) -> int:
    if line.lstrip().startswith("#"):
        return 0
    found = [len(_PARDIR.findall(line)), sum(dots.count("..") for dots in _DOTS.findall(line))]
    found += [chain.count(".parent") - 1 for chain in _PARENTS.findall(line)]
    found += [int(number) for number in _NUMBERED.findall(line)]
    found += [len(_DIRNAME.findall(line)) - 1] if "__file__" in line else []
    return max(found)
