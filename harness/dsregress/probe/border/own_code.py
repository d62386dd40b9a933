"""Tells the code that measures from the code that is measured, in one process. Standard library only."""

from __future__ import annotations

from pathlib import Path

#: The folder of the packages, spelled as in the frames of their modules. Staged, it holds only these and the scenarios.
SOURCES = Path(__file__).parents[3]

#: Folders of installed packages.
PACKAGE_FOLDERS = ("/site-packages/", "/dist-packages/")

PACKAGES = ("dsregress.probe", "dsregress.programs", "vgpu", "skeletons")

#: Their folders, each with a slash at its end.
FOLDERS = tuple(f"{SOURCES.joinpath(*package.split('.'))}/" for package in PACKAGES)


def is_own_file(file: str) -> bool:
    """Return True if a source file is of these packages."""
    return file.startswith(FOLDERS)


def is_own_module(name: str) -> bool:
    """Return True if a module is of these packages."""
    return any(name == package or name.startswith(f"{package}.") for package in PACKAGES)
