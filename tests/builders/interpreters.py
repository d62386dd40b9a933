"""Virtual environments that somebody else has made: an interpreter, and wheels unpacked as an installer does."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path


def make(folder: Path, *wheels: Path) -> Path:
    """The interpreter of a new environment in ``folder`` that holds these wheels, and no pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    for file in wheels:
        add(folder, file)
    return folder / "bin" / "python"


def add(folder: Path, wheel: Path) -> None:
    """Unpack one more wheel into the environment."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages(folder))


def packages(folder: Path) -> Path:
    (found,) = (folder / "lib").glob("python*/site-packages")
    return found


def content(folder: Path) -> dict[str, int]:
    """Every file in the environment with its size."""
    return {
        file.relative_to(folder).as_posix(): file.stat().st_size
        for file in sorted(packages(folder).rglob("*"))
        if file.is_file() and file.suffix != ".pyc"
    }
