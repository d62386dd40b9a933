"""Paths in an environment, and of environments."""

from __future__ import annotations

from pathlib import Path

from dsregress.model import LockedStack

#: Folders next to ``envs`` with the files that environments share.
SHARED = "shared"
BYTECODE = "bytecode"

#: Folder next to them with what programs have written for others that go on from it.
CHECKPOINTS = "checkpoints"

#: Describes a complete environment, in its folder.
MARKER = "dsregress.json"


def environment_folder(locked: LockedStack, folder: Path, *, gpu: bool) -> Path:
    """Return the folder where a stack's environment is, or would be built."""
    return folder / "envs" / f"{locked.stack.id}-{locked.sha256[:12]}-{'gpu' if gpu else 'cpu'}"


def is_built(place: Path) -> bool:
    """Return True if an environment was built in ``place``: its marker is written last."""
    return (place / MARKER).is_file()


def interpreter(place: Path) -> Path:
    """Return the Python of the environment in ``place``."""
    return place / "bin" / "python"


def site_packages(place: Path) -> Path:
    """Return the folder of installed packages of the environment in ``place``."""
    return next((place / "lib").glob("python*/site-packages"))
