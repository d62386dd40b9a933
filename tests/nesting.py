"""Folders in folders, deeper than Python recurses and than a path may be long."""

from __future__ import annotations

import os
from pathlib import Path


def nested(folder: Path, depth: int) -> None:
    """Make ``folder`` with ``depth`` folders in it, one in the other, and a file in the last."""
    folder.mkdir(parents=True)
    at = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
