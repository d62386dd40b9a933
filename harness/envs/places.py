"""Where things lie in an environment, and where environments lie."""

from __future__ import annotations

from pathlib import Path

from harness.model import LockedStack

#: Folders beside ``envs``, of what environments share.
SHARED = "shared"
BYTECODE = "bytecode"

#: Describes a complete environment, in its folder.
MARKER = "dsregress.json"


def environment_folder(locked: LockedStack, folder: Path, *, gpu: bool) -> Path:
    """Return where a stack's environment is, or would be built."""
    return folder / "envs" / f"{locked.stack.id}-{locked.sha256[:12]}-{'gpu' if gpu else 'cpu'}"


def is_built(place: Path) -> bool:
    """Return whether an environment was built in ``place``: its marker is written last."""
    return (place / MARKER).is_file()


def interpreter(place: Path) -> Path:
    """Return the Python of the environment in ``place``."""
    return place / "bin" / "python"


def site_packages(place: Path) -> Path:
    """Return where the environment in ``place`` keeps what is installed."""
    return next((place / "lib").glob("python*/site-packages"))
