"""The project's own distributions: built of this checkout, without an index, and installed as a user has them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from uv import find_uv_bin

from tests.paths import ROOT


def build_distribution(kind: str, folder: Path, source: Path = ROOT) -> Path:
    """Build a "wheel" or an "sdist" of the project in ``source``, as `python -m build` does."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


def contents(wheel: Path) -> Mapping[str, bytes]:
    """File -> content."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment, and return the environment's programs. Its dependencies are those of the
    running tests, so that no index is needed; this checkout is not among them."""
    uv = str(find_uv_bin())
    for command in (
        [uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(folder)],
        [uv, "pip", "install", "--quiet", "--no-deps", "--no-index", "--python", str(folder), str(wheel)],
    ):
        done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
    (packages,) = folder.glob("lib/python*/site-packages")
    dependencies = [place for place in sys.path if place.endswith(("site-packages", "dist-packages"))]
    (packages / "dependencies.pth").write_text("".join(f"{place}\n" for place in dependencies))
    return folder / "bin"
