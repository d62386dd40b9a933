"""Undoes edits of the files that environments share.

<folder>/edited/<distribution>-XXXX/    copies of the edited files, made before the edits were undone
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from dsregress.envs import apart, inside
from dsregress.envs.installer import Installed, Installer
from dsregress.envs.places import SHARED, interpreter, site_packages
from dsregress.errors import EnvironmentUnavailable

#: See `dsregress.envs.inside.edited`.
Edits = dict[str, dict[str, str]]


def undo_shared_edits(
    place: Path,
    folder: Path,
    installer: Installer,
    python: str,
    *,
    stamps: Mapping[str, str],
    shared: Mapping[str, str],
) -> tuple[Edits, tuple[str, ...]]:
    """Undo edits of files that other environments share. Return the remaining edits, and lines for the user.

    ``stamps`` and ``shared`` are those of the environment in ``place``, under ``folder``, whose Python is ``python``.

    Raise EnvironmentUnavailable if the packages cannot be obtained again.
    """
    packages = site_packages(place)
    edited = inside.edited(packages, stamps)
    notes = []
    for name, changes in edited.items():
        files = [file for file in changes if apart.is_shared(packages / file)]
        if not files or name not in shared:
            continue
        edits = folder / "edited"
        edits.mkdir(parents=True, exist_ok=True)
        kept = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=edits))
        for file in files:
            (kept / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(packages / file, kept / file)
        if not apart.restore(packages, folder / SHARED, name, files):
            _share_anew(folder, name, shared[name], installer, python)
            if not apart.restore(packages, folder / SHARED, name, files):
                hint = f"the edited text is in {kept}; move {place} away, and the next run builds it again"
                raise EnvironmentUnavailable(f"{edit_text(name, files)}, and is shared", where=str(place), hint=hint)
        notes.append(
            f"{edit_text(name, files)} where all environments share it: restored; the edited text is in {kept}; "
            "replace the file, instead of writing into it, to edit one environment"
        )
    return inside.edited(packages, stamps) if notes else edited, tuple(notes)


def _share_anew(folder: Path, name: str, requirement: str, installer: Installer, python: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".restoring-", dir=folder / "envs") as scratch:
        place = Path(scratch) / "environment"
        failed = installer.create(place, python) or installer.install(interpreter(place), [requirement])
        if failed is not None and not isinstance(failed, Installed):
            raise EnvironmentUnavailable(
                f"{name} was edited where all environments share it, and cannot be installed again: {failed.signature}",
                where=str(folder / SHARED),
                hint=f"move {folder / 'envs'} away, and the next run builds them again",
            )
        apart.separate(place, site_packages(place), folder / SHARED, framework="", named=())


def edit_text(name: str, files: Sequence[str]) -> str:
    """Return ``torch: torch/serialization.py and 2 more were edited``."""
    if len(files) == 1:
        return f"{name}: {files[0]} was edited"
    return f"{name}: {files[0]} and {len(files) - 1} more were edited"
