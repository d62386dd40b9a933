"""Locked stack -> virtual environment: built whole or not at all, reused while its lock is unchanged.

<folder>/envs/<stack id>-<lock12>-cpu/          the environment
<folder>/envs/<stack id>-<lock12>-cpu/dsregress.json   written last: its presence means that the environment is whole
<folder>/envs/<stack id>-<lock12>-cpu.lock      held while building, so that two runs at once do it once
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import csv
import fcntl
import hashlib
import importlib.metadata
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from harness.envs.installer import Installer
from harness.envs.recipe import recipe, torch_version
from harness.errors import EnvironmentUnavailable
from harness.model import Environment, Failed, LockedStack

_MARKER = "dsregress.json"

#: Environments built at once. Ten stacks on two cores with a warm cache: one at a time 19 s, two 13 s, three 28 s.
_AT_ONCE = 2


class _Marker(msgspec.Struct, frozen=True, kw_only=True):
    """What a whole environment says of itself."""

    schema: int = 1
    lock_sha256: str
    torch: str  #: cpu or cuda
    build_s: float


def build(
    locked: LockedStack,
    *,
    folder: Path,
    installer: Installer,
    gpu: bool,
    framework: str = "deepspeed",
    waiting: Callable[[], None] = lambda: None,
) -> Environment:
    """The stack's environment under ``folder``: as it stands when it is whole, else built now.

    ``framework`` is the distribution whose code is hashed; ``waiting`` is called when another run is building the same.
    A stack that does not install is an Environment with its ``failure``. Raises EnvironmentUnavailable where the machine
    is at fault.
    """
    place = folder / "envs" / f"{locked.stack.id}-{locked.sha256[:12]}-{'gpu' if gpu else 'cpu'}"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _held(place.with_name(f"{place.name}.lock"), waiting):
            marker = _whole(place, locked)
            if marker is None:
                shutil.rmtree(place, ignore_errors=True)  # what a killed run left
                made = _make(place, locked, installer, gpu)
                if isinstance(made, Failed):
                    shutil.rmtree(place, ignore_errors=True)
                    return Environment(stack=locked.stack, lock_sha256=locked.sha256, failure=made)
                marker = made
            return _describe(place, locked, marker, framework)
    except OSError as error:
        hint = "free space, or set DSREGRESS_ENVIRONMENTS to a writable folder"
        raise EnvironmentUnavailable(f"cannot be written: {error.strerror}", where=str(place), hint=hint) from None


def build_all(
    locked: Sequence[LockedStack],
    *,
    folder: Path,
    installer: Installer,
    gpu: bool,
    framework: str = "deepspeed",
    progress: Callable[[int, str, Environment | None], None] = lambda index, state, environment: None,
) -> tuple[Environment, ...]:
    """`build` for each, in the order given.

    ``progress`` is called from other threads with the index of the stack and ``started``, ``waiting`` (another run builds
    it) or ``done`` with the environment. The first is built alone, as it fills uv's cache with all that the others share.
    """

    def one(index: int) -> Environment:
        progress(index, "started", None)
        built = build(
            locked[index], folder=folder, installer=installer, gpu=gpu, framework=framework,
            waiting=lambda: progress(index, "waiting", None),
        )  # fmt: skip
        progress(index, "done", built)
        return built

    if not locked:
        return ()
    first = one(0)
    with concurrent.futures.ThreadPoolExecutor(max_workers=_AT_ONCE, thread_name_prefix="build") as pool:
        futures = [pool.submit(one, index) for index in range(1, len(locked))]
        try:
            return (first, *(future.result() for future in futures))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def interpreter(place: Path) -> Path:
    """The Python of the environment in ``place``."""
    return place / "bin" / "python"


def _make(place: Path, locked: LockedStack, installer: Installer, gpu: bool) -> _Marker | Failed:
    began = time.monotonic()
    version = torch_version(locked.requirements)
    cpu_torch = installer.cpu_torch(version, locked.stack.python) if version and not gpu else None
    lines = recipe(locked.requirements, gpu=gpu, cpu_torch=cpu_torch)
    failed = installer.create(place, locked.stack.python) or installer.install(interpreter(place), lines.requirements)
    if failed is not None:
        return failed
    marker = _Marker(lock_sha256=locked.sha256, torch=lines.torch, build_s=round(time.monotonic() - began, 3))
    temporary = place / f"{_MARKER}.tmp"
    temporary.write_bytes(msgspec.json.encode(marker))
    temporary.replace(place / _MARKER)
    return marker


def _whole(place: Path, locked: LockedStack) -> _Marker | None:
    try:
        marker = msgspec.json.decode((place / _MARKER).read_bytes(), type=_Marker)
    except (OSError, msgspec.DecodeError):
        return None
    # The interpreter is a link to the system's, which may have been removed since.
    return marker if marker.lock_sha256 == locked.sha256 and interpreter(place).exists() else None


def _describe(place: Path, locked: LockedStack, marker: _Marker, framework: str) -> Environment:
    packages = _site_packages(place)
    found = importlib.metadata.distributions(path=[str(packages)])
    installed = {re.sub(r"[-_.]+", "-", dist.metadata["Name"]).lower(): dist.version for dist in found}
    return Environment(
        stack=locked.stack,
        lock_sha256=locked.sha256,
        python=str(interpreter(place)),
        installed=dict(sorted(installed.items())),
        code_sha256=code_sha256(packages, framework),
        build_s=marker.build_s,
    )


def _site_packages(place: Path) -> Path:
    return next((place / "lib").glob("python*/site-packages"))


def code_sha256(packages: Path, distribution: str) -> str:
    """Hash of the Python files of an installed distribution, as they are now: an edit in place changes it.

    Empty where the distribution is not installed. Its RECORD says which files are its own.
    """
    name = re.sub(r"[-_.]+", "_", distribution).lower()
    record = next(
        (r for r in packages.glob("*.dist-info/RECORD") if r.parent.name.lower().startswith(f"{name}-")), None
    )
    if record is None:
        return ""
    with record.open(encoding="utf-8", newline="") as lines:
        files = sorted(row[0] for row in csv.reader(lines) if row and row[0].endswith(".py"))
    total = hashlib.sha256()
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            total.update(file.encode() + b"\0" + hashlib.sha256((packages / file).read_bytes()).digest())
    return total.hexdigest()


@contextlib.contextmanager
def _held(file: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock file; the kernel lets go of it when this process ends, however it ends."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
