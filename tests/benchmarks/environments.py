"""Building environments: as the harness does it with uv, against python -m venv and pip, for the same locks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dsregress.envs import hardware, venv
from dsregress.envs.installer import Installer
from dsregress.envs.recipe import CpuBuilds, recipe
from dsregress.model import LockedStack
from dsregress.system.scratch_folders import scratch_folder
from tests.benchmarks.figures import BenchmarkFigure, measured

_MB = 1e6


def run(locked: Sequence[LockedStack], environment: dict[str, str]) -> Iterator[BenchmarkFigure]:
    """Yield the times of the first stack and of each further one, with the download caches as they are."""
    section = "Environments (the same locks, download caches as they are)"
    gpu = hardware.has_gpu()
    times: dict[str, list[float]] = {}
    sizes: dict[str, list[int]] = {}
    installer = Installer(environment=environment)
    for name in ("uv", "pip"):
        with scratch_folder() as folder:
            places = []
            for lock in locked:
                began = time.monotonic()
                if name == "uv":
                    built = venv.build_venv(lock, folder=folder, installer=installer, gpu=gpu)
                    assert built.failure is None, f"{built.stack.id}: {built.failure}"
                    places.append(Path(built.python).parent.parent)
                else:
                    places.append(_built_with_pip(lock, folder / lock.sha256, installer, gpu))
                times.setdefault(name, []).append(time.monotonic() - began)
            sizes[name] = _added_bytes([str(place) for place in places])
    for name, tool in (("uv", "uv, as the harness does it"), ("pip", "python -m venv and pip")):
        yield measured(section, f"{tool}: first stack", times[name][:1], "s")
        if len(locked) > 1:
            yield measured(section, f"{tool}: each further stack", times[name][1:], "s")
        yield measured(section, f"{tool}: disk of the first stack", [sizes[name][0] / _MB], "MB")
        if len(locked) > 1:
            yield measured(section, f"{tool}: disk of each further stack", [s / _MB for s in sizes[name][1:]], "MB")
    yield measured(section, "pip over uv: time for all of them", [sum(times["pip"]) / sum(times["uv"])], "x")
    if len(locked) > 1:
        ratio = sum(sizes["pip"][1:]) / max(1, sum(sizes["uv"][1:]))
        yield measured(section, "pip over uv: disk of further stacks", [ratio], "x")


def _built_with_pip(locked: LockedStack, place: Path, installer: Installer, gpu: bool) -> Path:
    """Make an environment of the same packages with Python's own tools."""
    cpu_builds = CpuBuilds() if gpu else installer.cpu_builds(locked.requirements, locked.stack.python)
    requirements = place.with_suffix(".txt")
    requirements.write_text("\n".join(recipe(locked.requirements, gpu=gpu, cpu_builds=cpu_builds).requirements))
    python = str(place / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-input", "--no-compile"]
    for command in ([sys.executable, "-m", "venv", str(place)], [*pip, "--requirement", str(requirements)]):
        subprocess.run(command, env=installer.environment, check=True, stdout=subprocess.DEVNULL)
    return place


def _added_bytes(folders: Sequence[str]) -> list[int]:
    """Return the disk space that each folder takes beyond those before it: a file that is linked into several counts
    once."""
    seen: set[tuple[int, int]] = set()
    added = []
    for folder in folders:
        total = 0
        for place, _, files in os.walk(folder):
            for name in files:
                found = os.lstat(os.path.join(place, name))
                if (found.st_dev, found.st_ino) not in seen:
                    seen.add((found.st_dev, found.st_ino))
                    total += found.st_blocks * 512
        added.append(total)
    return added
