"""The mounts of which a view of the file system consists, as a plan. Pure, except for listing folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from vgpu.json_tables import decoded_texts, table_beside

#: Kinds of file systems that are the kernel's own, without files of any user.
_OF_THE_KERNEL = frozenset(decoded_texts(table_beside(__file__)["of_the_kernel"]))

#: Entries beyond which a folder is not made entry by entry.
_MOST_ENTRIES = 5_000

#: Devices, which an overlay of a namespace's own would disable. They are written where their folder is read-only.
_DEVICES = "/dev"


class How(Enum):
    """The way in which a path of the view is made."""

    OVERLAY = auto()  #: a folder that shows the machine's, with changes of the view's own
    SHARED = auto()  #: the machine's own, with all below it
    READ_ONLY = auto()  #: the machine's own, which cannot be changed
    FOLDER = auto()  #: a new folder, whose entries are made one by one, since it contains a mount
    LINK = auto()


@dataclass(frozen=True)
class Mount:
    """A mount of the machine."""

    path: str
    kind: str


@dataclass(frozen=True)
class Step:
    """One path of the view; parents come before their entries."""

    path: str
    how: How


def read_mounts(table: str) -> list[Mount]:
    """Return the mounts of a ``/proc/self/mountinfo``, as proc_pid_mountinfo(5) describes it."""
    found = []
    for line in table.splitlines():
        words = line.split(" ")
        path = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), words[4])
        found.append(Mount(path, words[words.index("-") + 1]))
    return found


def plan_view(mounts: Sequence[Mount]) -> list[Step]:
    """Return the steps that make a view of this machine's ``/``.

    The kernel refuses an overlay over a folder below which something else is mounted, so such a folder is made anew,
    entry by entry; one with very many entries, as container engines have, is read-only.
    """
    kinds = {mount.path: mount.kind for mount in mounts}  # of several at one path, the last is visible
    above = {parent for path in kinds for parent in _parents(path)}
    return [*_steps_of_entries("/", kinds, above)]


def _steps_of_entries(folder: str, kinds: dict[str, str], above: set[str]) -> Iterator[Step]:
    for entry in _listed_entries(folder):
        path = os.path.join(folder, entry.name)
        if entry.is_symlink():
            yield Step(path, How.LINK)
        elif not entry.is_dir():
            yield Step(path, How.READ_ONLY)
        elif kinds.get(path) == "proc":
            yield Step(path, How.SHARED)
        elif path == _DEVICES or kinds.get(path) in _OF_THE_KERNEL:
            yield Step(path, How.READ_ONLY)
        elif path not in above:
            yield Step(path, How.OVERLAY)
        elif len(_listed_entries(path)) > _MOST_ENTRIES:
            yield Step(path, How.READ_ONLY)
        else:
            yield Step(path, How.FOLDER)
            yield from _steps_of_entries(path, kinds, above)


def _listed_entries(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, by name; empty if this user may not list it, or if it is gone."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _parents(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path
