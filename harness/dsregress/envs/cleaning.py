"""Finds the unused parts of a folder of environments, and removes them.

Files that environments share stay on the disk until the last of those environments is gone, so an environment's own size
leaves them out, and a shared entry is removed once no remaining environment has it.
"""

from __future__ import annotations

import bisect
import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from dsregress.envs.places import BYTECODE, CHECKPOINTS, SHARED
from dsregress.envs.venv import read_marker
from dsregress.errors import EnvironmentUnavailable
from dsregress.system.locks import try_lock
from vgpu.trees import remove_tree

#: All that the harness makes in the folder, and can make again: not ``edited``, which holds a user's edits.
_ALL = ("envs", SHARED, BYTECODE, "locks", "probe", "caches", "skeletons", "truths", "runs", CHECKPOINTS)


class Removable(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that can be removed."""

    place: Path
    size_bytes: int  #: of disk that its removal frees


def everything(folder: Path) -> tuple[Removable, ...]:
    """Return all that the harness has made in ``folder``. Raise OSError."""
    places = [folder / name for name in _ALL if (folder / name).is_dir()]
    return _sized(places, Counter(inode for place in places for inode, _ in _inodes(place)))


def unused(folder: Path, used: Collection[str]) -> tuple[Removable, ...]:
    """Return the environments in ``folder`` that are not ``used`` (names of their folders), and the packages and bytecode
    that only they share. Raise OSError."""
    environments = _visible_folders(folder / "envs")
    superfluous = [place for place in environments if place.name not in used]
    going = Counter(inode for place in superfluous for inode, _ in _inodes(place))
    shared = [place for place in _visible_folders(folder / SHARED) if _is_only_in(place, going)]
    going += Counter(inode for place in shared for inode, _ in _inodes(place))
    markers = [read_marker(place) for place in environments if place.name in used]
    compiled = {name for marker in markers if marker is not None for name in marker.bytecode}
    bytecode = [place for place in _visible_folders(folder / BYTECODE) if place.name not in compiled]
    stems = {name.rpartition("-")[0] for name in used}  # without -cpu or -gpu
    caches = [place for place in _visible_folders(folder / "caches") if place.name not in stems]
    going += Counter(inode for place in (*bytecode, *caches) for inode, _ in _inodes(place))
    return _sized([*superfluous, *shared, *bytecode, *caches], going)


def beyond(folder: Path, limit_bytes: int) -> tuple[Removable, ...]:
    """Return as many environments in ``folder``, those used least recently first, with what only they share, as have to go
    for the folder to take at most ``limit_bytes``: all if that is not enough. Raise OSError."""
    latest_first = sorted(_visible_folders(folder / "envs"), key=_used_at_ns, reverse=True)
    names = [place.name for place in latest_first]
    excess_bytes = sum(one.size_bytes for one in everything(folder)) - limit_bytes

    def freed(count: int) -> int:
        """Return the bytes that the removal of the last ``count`` environments frees."""
        return sum(one.size_bytes for one in unused(folder, names[: len(names) - count]))

    if excess_bytes <= 0:
        return ()
    count = bisect.bisect_left(range(len(names)), excess_bytes, key=freed)
    return unused(folder, names[: len(names) - count])


def _used_at_ns(place: Path) -> int:
    """Return when an environment was used last: its lock is touched then."""
    lock = place.with_name(f"{place.name}.lock")
    return (lock if lock.exists() else place).stat().st_mtime_ns


def check_idle(folder: Path) -> None:
    """Raise EnvironmentUnavailable if another process builds an environment in ``folder``: what serves it would be taken
    for unused. Runs are not looked for. Raise OSError."""
    for file in sorted((folder / "envs").glob("*.lock")):
        lock = try_lock(file)
        if lock is None:
            raise EnvironmentUnavailable(
                "another process is building it", where=str(file.with_suffix("")), hint="wait for it to finish"
            )
        lock.release()


def remove_unused(removable: Removable) -> None:
    """Remove a folder, and the lock of an environment next to it. Raise OSError."""
    remove_tree(removable.place)
    if removable.place.exists():
        shutil.rmtree(removable.place)  # says why it stays
    if removable.place.parent.name == "envs":
        removable.place.with_name(f"{removable.place.name}.lock").unlink(missing_ok=True)


def _visible_folders(folder: Path) -> list[Path]:
    return sorted(place for place in folder.iterdir() if place.is_dir()) if folder.is_dir() else []


def _is_only_in(place: Path, going: Counter[tuple[int, int]]) -> bool:
    """Return True if all other names of a folder's files are among those that go."""
    return all(status.st_nlink == 1 + going[inode] for inode, status in _inodes(place))


def _sized(places: list[Path], going: Counter[tuple[int, int]]) -> tuple[Removable, ...]:
    """Return the places with the bytes that each frees: a file with several names counts for the last of those that go."""
    seen: Counter[tuple[int, int]] = Counter()
    found = []
    for place in places:
        size = 0
        for inode, status in _inodes(place):
            seen[inode] += 1
            if seen[inode] == going[inode] == status.st_nlink:
                size += status.st_blocks * 512
        found.append(Removable(place=place, size_bytes=size))
    return tuple(found)


def _inodes(place: Path) -> Iterator[tuple[tuple[int, int], os.stat_result]]:
    """Yield device and inode of all but folders and links to them, however deep, as far as this user may look."""
    left = [os.fspath(place)]
    while left:
        try:
            with os.scandir(left.pop()) as found:
                entries = list(found)
        except OSError:  # it is gone, or nested deeper than a path is long
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                left.append(entry.path)
            elif not entry.is_dir():
                status = os.lstat(entry.path)
                yield (status.st_dev, status.st_ino), status
