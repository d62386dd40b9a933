"""Copies the probe and the scenarios into a folder named by their content.

A measured process imports the copy, so that editing a file while a run goes on changes nothing in it, and the folder's
hash says in every result which code measured. The folder holds ``harness/`` (the probe only) and ``scenarios/``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from harness.errors import EnvironmentUnavailable, UsageError
from harness.system.files import new_folder

_HARNESS = Path(__file__).resolve().parent.parent


def probe_files(scenarios: Path) -> dict[str, bytes]:
    """Path in the staged folder -> content, sorted by path. Raises UsageError when there are no scenarios."""
    sources = {"harness/__init__.py": _HARNESS / "__init__.py"}
    for file in (_HARNESS / "probe").rglob("*.py"):
        sources[f"harness/{file.relative_to(_HARNESS).as_posix()}"] = file
    if not scenarios.is_dir():
        raise UsageError("no such folder", where=str(scenarios), hint="set [tool.dsregress] scenarios")
    for file in scenarios.rglob("*.py"):
        sources[f"scenarios/{file.relative_to(scenarios).as_posix()}"] = file
    return {name: sources[name].read_bytes() for name in sorted(sources)}


def measuring_sha256(files: Mapping[str, bytes]) -> str:
    """One hash of the code that decides how a cell is measured: the probe. Nothing below ``scenarios/`` is in it: what a
    scenario declares and its model's shape are the cell's parameters, and one more of them leaves other results valid."""
    return content_sha256({name: content for name, content in files.items() if name.startswith("harness/")})


def content_sha256(files: Mapping[str, bytes]) -> str:
    """One hash over names and contents."""
    total = hashlib.sha256()
    for name, content in files.items():
        total.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def stage(files: Mapping[str, bytes], parent: Path) -> Path:
    """The folder with these files below ``parent``, made unless it is there. Raises EnvironmentUnavailable."""
    folder = parent / content_sha256(files)[:12]
    try:
        if folder.is_dir():
            folder.chmod(0o755)  # another user reads it in a container
            return folder
        with new_folder(folder) as unfinished:
            for name, content in files.items():
                file = unfinished / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
    except OSError as error:
        raise EnvironmentUnavailable(
            f"cannot copy the probe: {error.strerror}", where=str(folder), hint="check its access and the space left"
        ) from None
    return folder
