"""Removes folders that measured code has filled: nested however deep, with paths longer than the system takes."""

from __future__ import annotations

import contextlib
import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def remove_tree(folder: str | os.PathLike[str]) -> None:
    """Remove a folder with all its content. Links are removed, never followed; anything that cannot be removed stays.

    One folder is open at a time, and names are relative to it: neither Python's stack, nor the length of a path, nor the
    number of open files limits the depth.
    """
    with contextlib.suppress(OSError):
        parent, name = os.path.split(os.path.abspath(folder))
        at = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            path: list[tuple[str, tuple[int, int]]] = []  #: to the open folder: each name, and the folder that has it
            left = [[name]]  #: in each folder of the path, and in the open one, the folders to remove
            while left[0] or path:
                if left[-1]:
                    name = left[-1].pop()
                    with contextlib.suppress(OSError):
                        below = _open_to_remove(name, at)
                        path.append((name, _identity(at)))
                        os.close(at)
                        at = below
                        left.append(_without_files(at))
                else:
                    name, above = path.pop()
                    left.pop()
                    up = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
                    os.close(at)
                    at = up
                    if _identity(at) != above:
                        return  # something has moved the folder: what is above it now is not ours
                    with contextlib.suppress(OSError):
                        os.rmdir(name, dir_fd=at)
        finally:
            os.close(at)


def _open_to_remove(name: str, parent: int) -> int:
    """Open a folder, whatever its mode: overlayfs leaves some without permissions. Raise OSError if it cannot be opened."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        os.chmod(name, stat.S_IRWXU, dir_fd=parent)
        folder = os.open(name, _FOLDER, dir_fd=parent)
    if stat.S_IMODE(os.fstat(folder).st_mode) & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):  # another user's
            os.fchmod(folder, stat.S_IRWXU)
    return folder


def _without_files(folder: int) -> list[str]:
    """Remove everything in an open folder except folders, and return their names."""
    with os.scandir(folder) as found:
        entries = list(found)
    folders = []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
        else:
            with contextlib.suppress(OSError):
                os.unlink(entry.name, dir_fd=folder)
    return folders


def _identity(folder: int) -> tuple[int, int]:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino
