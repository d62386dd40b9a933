"""What a machine, and an environment on it, say of themselves. Standard library only, and no import of ours: in a container
this file is run as the text that it is (``python -c``), with the name of a distribution.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

#: Where a control group's limit of memory is found from within it: version 2, version 1.
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def machine() -> dict[str, Any]:
    """The fields of `harness.model.Hardware`: CPU model, cores that may be used, memory that may be used, GPUs."""
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
    """Distribution -> version, everything in a folder of packages, sorted."""
    found = importlib.metadata.distributions(path=[str(packages)])
    return dict(sorted((re.sub(r"[-_.]+", "-", dist.metadata["Name"]).lower(), dist.version) for dist in found))


def code_sha256(packages: Path, distribution: str) -> str:
    """Hash of the Python files of an installed distribution, as they are now: an edit in place changes it.

    Empty where the distribution is not installed. Its RECORD says which files are its own.
    """
    files = sorted(name for name in own_files(packages, distribution) if name.endswith(".py"))
    if not files:
        return ""
    total = hashlib.sha256()
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            total.update(file.encode() + b"\0" + hashlib.sha256((packages / file).read_bytes()).digest())
    return total.hexdigest()


def own_files(packages: Path, distribution: str) -> tuple[str, ...]:
    """What a distribution has installed, relative to ``packages``; empty where it is not installed."""
    name = re.sub(r"[-_.]+", "_", distribution).lower()
    record = next(
        (r for r in packages.glob("*.dist-info/RECORD") if r.parent.name.lower().startswith(f"{name}-")), None
    )
    if record is None:
        return ()
    with record.open(encoding="utf-8", newline="") as lines:
        return tuple(row[0] for row in csv.reader(lines) if row)


def nvidia_smi(field: str) -> tuple[str, ...]:
    """One field of every GPU; nothing where there is none."""
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
    """Of the machine, or what a control group leaves of it."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _MEMORY_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # ValueError: "max"
            return min(physical, int(Path(file).read_text()))
    return physical


if __name__ == "__main__":
    here = Path(sysconfig.get_paths()["purelib"])
    answer = {"machine": machine(), "installed": installed(here), "code_sha256": code_sha256(here, sys.argv[1])}
    sys.stdout.write(json.dumps(answer))
