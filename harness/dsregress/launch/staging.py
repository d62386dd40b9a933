"""Copies the probe and the scenarios, for measured processes to import.

So editing a file during a run changes nothing in it, and every result has a hash of the code that measured. A copy holds
the packages of `dsregress.probe.border.own_code`, and ``scenarios/``.

Measured processes run as the same user, and can write to what they import. So each server gets a copy of its own (`copy`),
which is compared with its source in the end. A copy that several share, read-only in containers (`stage`), is compared
before each use, and restored; it may contain nothing else, bytecode included.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from dsregress.errors import EnvironmentUnavailable, UsageError
from dsregress.probe.border.own_code import FOLDERS, SOURCES
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.system.files import new_folder, write_atomically
from dsregress.system.obstacles import obstacle_error
from vgpu.trees import remove_tree

#: Suffixes of modules and of their data.
_CODE = (".py", ".toml", ".json")

#: The folder, below that of the scenarios, with the programs that belong to them.
PROGRAMS = "programs"


def probe_files(scenarios: Path) -> dict[str, bytes]:
    """Return path in the staged folder -> content, sorted by path. Raise UsageError if the folder of scenarios does not
    exist."""
    code = [SOURCES / "dsregress" / "__init__.py"]
    code += (file for folder in FOLDERS for file in Path(folder).rglob("*") if file.suffix in _CODE)
    sources = {file.relative_to(SOURCES).as_posix(): file for file in code}
    if not scenarios.is_dir():
        raise UsageError("no such folder", where=str(scenarios), hint="set [tool.dsregress] scenarios")
    for file in (*scenarios.glob("*.py"), *_of_programs(scenarios / PROGRAMS)):
        sources[f"scenarios/{file.relative_to(scenarios).as_posix()}"] = file
    try:
        return {name: read_regular(sources[name], MOST_FILE_BYTES, follow_links=True) for name in sorted(sources)}
    except OSError as error:
        hint = f"every *.py there is copied, and all of {PROGRAMS}/"
        raise UsageError(f"cannot be read: {error.strerror}", where=str(error.filename), hint=hint) from None


def _of_programs(folder: Path) -> list[Path]:
    """Return all files below, except bytecode and hidden files, such as the history of a cloned program."""
    inside = (file for file in folder.rglob("*") if not any(part[0] == "." for part in file.relative_to(folder).parts))
    return [file for file in inside if file.is_file() and file.suffix != ".pyc"]


def probe_sha256(files: Mapping[str, bytes]) -> str:
    """Return one hash of the probe's code, which results keep as evidence. What decides whether they are comparable is the
    measuring version (`dsregress.store.measuring_versions`)."""
    return content_sha256({name: content for name, content in files.items() if not name.startswith("scenarios/")})


def content_sha256(files: Mapping[str, bytes]) -> str:
    """Return one hash over names and contents."""
    total = hashlib.sha256()
    for name, content in files.items():
        total.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return total.hexdigest()


def copy(files: Mapping[str, bytes], folder: Path) -> Path:
    """Make ``folder`` with these files. Raise EnvironmentUnavailable."""
    with _copy_errors(folder):
        for name, content in files.items():
            _write_read_only(folder / name, content)
    return folder


def foreign_entries(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Return the entries of the folder that `copy` did not make, by path in it, sorted. Python's own bytecode does not
    count, nor do missing files (`removals`), as no other code runs in their place."""
    if folder.is_symlink():
        return [folder.name]
    try:
        foreign, _ = _differences(folder, files)
    except OSError:
        return []
    # a file that is removed while it is read is missing, too
    return sorted(name for name, entry in foreign if entry.name != _BYTECODE and os.path.lexists(entry.path))


def removals(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Return the files that are missing, in order. The server that the copy belongs to need not have removed them: another
    release, or a program that cleans up, can have."""
    return [name for name in files if not os.path.lexists(folder / name)]


def stage(files: Mapping[str, bytes], parent: Path, note: Callable[[str], None]) -> Path:
    """Return the folder with these files, named by their content, below ``parent``.

    It is made unless it exists; one that was changed since is restored, and ``note`` gets a line about it. Raise
    EnvironmentUnavailable.
    """
    folder = parent / content_sha256(files)[:12]
    with _copy_errors(folder), _ONE_AT_A_TIME:
        changed = _restore(folder, files) if folder.is_dir() and not folder.is_symlink() else _make_copy(folder, files)
    if changed:
        note(f"the copy of the probe in {folder} was changed ({names_text(changed)}); restored")
    return folder


def names_text(changed: Sequence[str]) -> str:
    """Return ``NAME``, or ``NAME and 3 more``."""
    return changed[0] if len(changed) == 1 else f"{changed[0]} and {len(changed) - 1} more"


#: Folder of the bytecode of imported modules. Not trusted: it records only its source's mtime and size.
_BYTECODE = "__pycache__"

#: Mode of the copy that several share: in a container another user reads it, whatever the user's umask.
_READABLE = 0o755

#: Threads that start servers at the same time.
_ONE_AT_A_TIME = threading.Lock()


@contextlib.contextmanager
def _copy_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "check its permissions and the free disk space"
        raise obstacle_error(EnvironmentUnavailable, "cannot copy the probe", error, where=folder, hint=hint) from None


def _make_copy(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Make the folder, and return what it replaced. Raise OSError."""
    found = []
    if os.path.lexists(folder):
        folder.unlink()
        found = [folder.name]
    with new_folder(folder) as unfinished:
        unfinished.chmod(_READABLE)
        for name, content in files.items():
            _write_read_only(unfinished / name, content)
    return found


def _restore(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    """Make the folder hold these files alone, each with its content. Return the differences, sorted. Raise OSError."""
    folder.chmod(_READABLE)
    foreign, missing = _differences(folder, files)
    for _, entry in foreign:
        _remove_entry(entry)
    for name in missing:
        _write_read_only(folder / name, files[name])
    return sorted({*(name for name, entry in foreign if entry.name != _BYTECODE), *missing})


def _differences(folder: Path, files: Mapping[str, bytes]) -> tuple[list[tuple[str, os.DirEntry[str]]], list[str]]:
    """Return the foreign entries, by path, and the files that are missing or changed. Raise OSError."""
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    foreign = []
    missing = dict.fromkeys(files)
    for name, entry in _entries_below(folder, folders):
        if name in files and _holds(entry, files[name]):
            del missing[name]
        else:
            foreign.append((name, entry))
    return foreign, list(missing)


def _entries_below(folder: Path, folders: set[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the entries of the folder and of these folders in it, by path in it; those folders themselves are left out."""
    left = [""]
    while left:
        inside = left.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                name = f"{inside}/{entry.name}" if inside else entry.name
                if name in folders and entry.is_dir(follow_symlinks=False):
                    left.append(name)
                else:
                    yield name, entry


def _holds(entry: os.DirEntry[str], content: bytes) -> bool:
    try:
        return read_regular(entry.path, len(content)) == content
    except OSError:
        return False


def _remove_entry(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        remove_tree(entry.path)  # another server may write its bytecode at this moment
    else:
        os.unlink(entry.path)


def _write_read_only(file: Path, content: bytes) -> None:
    """Write a read-only file, to protect against accidents: its owner can change that."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, content, durable=False)
    file.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
