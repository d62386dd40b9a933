"""Describes a machine, and an environment on it, from within. Standard library only, and no import of ours: in a container
this file is run as text (``python -c``), with the names of the framework under test and of its peers."""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import importlib.metadata
import io
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

#: Files with a control group's memory limit, seen from within it: version 2, version 1.
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

#: Files that an installer writes anew into the metadata of each installation.
_OF_THE_INSTALLATION = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json", "uv_build.json")


def machine() -> dict[str, Any]:
    """Return the fields of `dsregress.model.Hardware`: CPU model, cores that may be used, memory that may be used, GPUs."""
    gpus = nvidia_smi("name")
    drivers = nvidia_smi("driver_version") if gpus else ()
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1),
        "memory_bytes": _memory_bytes(),
        "gpus": gpus,
        "gpu_driver": drivers[0] if drivers else "",
    }


def installed(packages: Path) -> dict[str, str]:
    """Return distribution -> version of everything in a folder of packages, sorted."""
    found = importlib.metadata.distributions(path=[str(packages)])
    return dict(sorted(pair for dist in found if (pair := _name_and_version(dist)) is not None))


def demands(distributions: Iterable[importlib.metadata.Distribution], names: Iterable[str]) -> dict[str, list[str]]:
    """Return distribution -> its requirements on the packages ``names``, if it restricts their releases.

    Requirements of extras, and markers, are left out: ``{"openrlhf": ["deepspeed==0.16.3"]}``.
    """
    wanted = {normal(name) for name in names}
    found: dict[str, list[str]] = {}
    for dist in distributions:
        if (pair := _name_and_version(dist)) is None:
            continue
        for line in dist.requires or ():
            requirement, _, marker = line.partition(";")
            parts = re.match(r"([\w.-]+)\s*(?:\[[^]]*\])?\s*\(?([^)]*)\)?", requirement)
            if parts is None or "extra" in marker or not parts[2].strip():
                continue
            if normal(parts[1]) in wanted and normal(parts[1]) != pair[0]:
                found.setdefault(pair[0], []).append(f"{normal(parts[1])}{parts[2].replace(' ', '')}")
    return found


def _name_and_version(distribution: importlib.metadata.Distribution) -> tuple[str, str] | None:
    """Return name and version; None if the files do not have them: code that runs in an environment can write to them."""
    folder = getattr(distribution, "_path", None)
    if folder is not None and not _is_regular_or_absent(Path(folder) / "METADATA"):
        return None  # a pipe or a device, which never ends
    try:
        return re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower(), distribution.version
    except (OSError, ValueError, TypeError):
        return None


def code_sha256(
    packages: Path, distribution: str, peers: Iterable[str] = (), edited: Mapping[str, Mapping[str, str]] | None = None
) -> str:
    """Return the hash of the code that a measurement runs: the Python files of the framework under test as they are now, the
    content of the wheels of its ``peers``, and each file that was ``edited`` since it was installed (see `edited`).

    Empty if ``distribution``, the framework, is not installed. The same on every machine that installed the same wheels.
    """
    infos = _infos(packages)
    files = sorted(name for name in own_files(packages, distribution) if name.endswith(".py"))
    if not files:
        return ""
    total = hashlib.sha256()
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            total.update(file.encode() + b"\0" + hashlib.sha256(_content(packages / file)).digest())
    for peer in sorted({normal(peer) for peer in peers} & infos.keys() - {normal(distribution)}):
        total.update(f"{peer}\0{_of_record(_installed_files(infos[peer]))}\n".encode())
    for changes in (edited or {}).values():
        total.update("".join(f"{file}\0{content}\n" for file, content in sorted(changes.items())).encode())
    return total.hexdigest()


def own_files(packages: Path, distribution: str) -> tuple[str, ...]:
    """Return the files that a distribution has installed, relative to ``packages``; empty if it is not installed."""
    info = _infos(packages).get(normal(distribution))
    return tuple(name for name, _ in _record_rows(info)) if info is not None else ()


def records(packages: Path) -> dict[str, dict[str, str]]:
    """Return distribution -> file -> hash (``sha256=...``; empty if none is recorded) of the files that each wheel has
    installed.

    Files that are made anew for every installation are left out: bytecode, scripts, the installer's notes.
    """
    return {name: _installed_files(info) for name, info in _infos(packages).items()}


def stamp(packages: Path, record: Mapping[str, str]) -> str:
    """Return a text that changes when one of the files of a record is edited, or the record is. Fast: no file is read."""
    seen: list[tuple[int, int] | None] = []
    folder = os.open(packages, os.O_RDONLY)  # a fifth faster than whole paths: an environment has 20,000 files
    try:
        for file in record:
            try:
                found = os.stat(file, dir_fd=folder)
            except OSError:
                seen.append(None)
            else:
                seen.append((found.st_size, found.st_mtime_ns))
    finally:
        os.close(folder)
    return f"{_of_record(record)}:{hashlib.sha256(repr(seen).encode()).hexdigest()}"


def edited(packages: Path, stamps: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return distribution -> file -> hash of its content (empty if it is gone) of the files that differ from the installed
    ones.

    ``stamps`` are those of the distributions when they were installed. If one differs, contents decide.
    """
    found: dict[str, dict[str, str]] = {}
    infos = _infos(packages)
    for name, installed_as in stamps.items():
        record = _installed_files(infos[name]) if name in infos else {}
        if stamp(packages, record) == installed_as:
            continue
        changes = {file: content for file, content in contents(packages, record) if not _is(content, record[file])}
        if changes:  # of several distributions that install a file, one over the other, the last one's is there
            owners = [_installed_files(info) for info in infos.values()]
            changes = {f: c for f, c in changes.items() if not any(_is(c, one.get(f, "")) for one in owners)}
        if _of_record(record) != installed_as.partition(":")[0]:
            changes[f"{name}.dist-info/RECORD"] = _of_record(record)
        if changes:
            found[name] = changes
    return found


def contents(packages: Path, files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each file with the hash of its content in hexadecimal, empty if it is gone."""
    for file in files:
        try:
            yield file, hashlib.sha256(_content(packages / file)).hexdigest()
        except OSError:
            yield file, ""


def is_as_recorded(content: str, recorded: str) -> bool:
    """Return True if the SHA-256 of a content, in hexadecimal, is the recorded one; any content is, if no such hash is
    recorded.

    A file that is gone (empty) never is.
    """
    return bool(content) and (not recorded.startswith("sha256=") or _is(content, recorded))


def is_complete(record: Mapping[str, str]) -> bool:
    """Return True if a record lists its distribution's metadata, as every whole one does: one that is cut at a line's end
    looks like a shorter one."""
    return any(file.endswith(".dist-info/METADATA") for file in record)


def _is(content: str, recorded: str) -> bool:
    kind, _, value = recorded.partition("=")
    return kind == "sha256" and base64.urlsafe_b64encode(bytes.fromhex(content)).rstrip(b"=").decode() == value.rstrip(
        "="
    )


def normal(distribution: str) -> str:
    """Return a distribution's name as folders of metadata spell it: lower case, with underscores."""
    return re.sub(r"[-_.]+", "_", distribution).lower()


def _infos(packages: Path) -> dict[str, Path]:
    """Return distribution, as folders spell it -> its folder of metadata."""
    names = sorted(name for name in os.listdir(packages) if name.endswith(".dist-info"))
    return {normal(name.partition("-")[0]): packages / name for name in names}


def _record_rows(info: Path) -> Iterator[tuple[str, str]]:
    try:
        text = _content(info / "RECORD").decode("utf-8", "replace")
        rows = csv.reader(io.StringIO(text, newline=""))
        yield from ((row[0], row[1] if len(row) > 1 else "") for row in rows if row and "\0" not in row[0])
    except (OSError, csv.Error):
        return


def _is_regular_or_absent(file: Path) -> bool:
    try:
        return stat.S_ISREG(os.stat(file).st_mode)
    except OSError:
        return True


def _content(file: Path) -> bytes:
    """Return the content of a release's file: nothing, if the release has put a pipe, a device or a folder in its place.
    Raise OSError."""
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return b""
    with open(handle, "rb") as stream:
        return stream.read()


def _installed_files(info: Path) -> dict[str, str]:
    notes = {f"{info.name}/{name}" for name in _OF_THE_INSTALLATION}
    return {
        name: recorded
        for name, recorded in sorted(_record_rows(info))
        if not name.endswith(".pyc") and not name.startswith(("../", "/")) and name not in notes
    }


def _of_record(record: Mapping[str, str]) -> str:
    return hashlib.sha256("".join(f"{file}\0{recorded}\n" for file, recorded in record.items()).encode()).hexdigest()


def nvidia_smi(field: str) -> tuple[str, ...]:
    """Return one field of every GPU; empty without a GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    command = [program, f"--query-gpu={field}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip()) if done.returncode == 0 else ()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return os.uname().machine  # Arm kernels name no model


def _memory_bytes() -> int:
    """Return the memory of the machine, or the limit of its control group."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _MEMORY_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # ValueError: "max"
            return min(physical, int(Path(file).read_text()))
    return physical


if __name__ == "__main__":
    here = Path(sysconfig.get_paths()["purelib"])
    code = code_sha256(here, sys.argv[1], sys.argv[2:])
    answer = {"machine": machine(), "installed": installed(here), "code_sha256": code}
    answer["demands"] = demands(importlib.metadata.distributions(path=[str(here)]), sys.argv[1:])
    sys.stdout.write(json.dumps(answer))
