"""The folder in which a program runs: it looks like the user's, and nothing that is written in it reaches the user's files.

Folders are made anew and files are links to the user's. A file that the program opens for writing is copied first, or
made anew where it is truncated; what it makes is the run's, and goes with it.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from pathlib import Path

from harness.probe.launch_line import LaunchLine

#: Name of a run's own copy.
NAME = "program"

#: Entries beyond which folders are linked as a whole: a data set of a million files need not be mirrored.
_MOST_ENTRIES = 20_000

#: Folders that no program reads as its own.
_LEFT_OUT = frozenset(
    (".git", ".hg", ".svn", "__pycache__", ".dsregress", "node_modules", ".nox", ".tox", ".mypy_cache")
)


def make(run: Path, source: str) -> Path:
    """Makes the folder in that of a run, from the user's, ``source``. Raises ValueError where that is not known."""
    if not source:
        raise ValueError("where the program's files are is not known on this machine: give it with --program once more")
    made = run / NAME
    made.mkdir()
    _mirror(Path(source), made)
    return made


def beside(line: LaunchLine, source: str) -> LaunchLine:
    """The line, with files that it names by a way out of the user's folder, ``source`` (``--config_file ../zero3.yaml``),
    where they are: beside the copy there is nothing. Folders stay, as a program may write in them, but for those of
    ``PYTHONPATH``, which it reads."""

    def found(word: str) -> str:
        name, equals, value = word.rpartition("=")
        if value.startswith("../"):
            file = os.path.normpath(os.path.join(os.path.realpath(source), value))
            if os.path.isfile(file):
                return f"{name}{equals}{file}"
        return word

    def searched(folder: str) -> str:
        return os.path.normpath(os.path.join(os.path.realpath(source), folder)) if folder.startswith("..") else folder

    return dataclasses.replace(
        line,
        variables=tuple(
            (name, os.pathsep.join(map(searched, value.split(os.pathsep))) if name == "PYTHONPATH" else value)
            for name, value in line.variables
        ),
        program=line.program if line.is_module else found(line.program),
        options=tuple(map(found, line.options)),
        arguments=tuple(map(found, line.arguments)),
    )


def _mirror(source: Path, made: Path) -> None:
    left = [(source, made)]
    entries = 0
    while left:
        folder, copy = left.pop(0)  # those near the top first
        with os.scandir(folder) as found:
            for entry in found:
                entries += 1
                target = copy / entry.name
                if entry.name in _LEFT_OUT or (entry.is_dir() and _is_environment(entry.path)):
                    continue
                if entry.is_dir(follow_symlinks=False) and entries <= _MOST_ENTRIES:
                    target.mkdir()
                    left.append((Path(entry.path), target))
                else:
                    target.symlink_to(entry.path)


def _is_environment(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "pyvenv.cfg"))


def protect(made: Path) -> None:
    """From now on this process writes to the user's files through no link in the folder. Cannot be undone."""
    root = str(made) + os.sep

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str):
            path, mode, flags = arguments[0], arguments[1], arguments[2]
            if _writes(mode, flags) and os.path.islink(path) and os.path.abspath(path).startswith(root):
                _unlink(path, truncated=isinstance(flags, int) and bool(flags & os.O_TRUNC))

    sys.addaudithook(audit)


def _writes(mode: object, flags: object) -> bool:
    if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC):
        return True
    return isinstance(mode, str) and any(letter in mode for letter in "wax+")


def _unlink(path: str, *, truncated: bool) -> None:
    """Puts a file of its own in the place of a link."""
    source = os.path.realpath(path)
    os.unlink(path)
    if not truncated and os.path.isfile(source):
        shutil.copyfile(source, path)
