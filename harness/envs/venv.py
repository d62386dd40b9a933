"""Locked stack -> virtual environment: built whole or not at all, reused while its lock is unchanged.

<folder>/envs/<stack id>-<lock12>-cpu/          the environment
<folder>/envs/<stack id>-<lock12>-cpu/dsregress.json   written last: its presence means that the environment is whole
<folder>/envs/<stack id>-<lock12>-cpu.lock      held while building, so that two runs at once do it once
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from harness.envs import inside
from harness.envs.installer import Installer
from harness.envs.recipe import recipe, torch_version, without
from harness.errors import EnvironmentUnavailable
from harness.model import Environment, Failed, LockedStack
from harness.system.files import write_atomically
from harness.system.locks import held

_MARKER = "dsregress.json"

#: Environments built at once. Ten stacks on two cores with a warm cache: one at a time 19 s, two 13 s, three 28 s.
_AT_ONCE = 2


class _Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Describes a complete environment."""

    schema: int = 1
    lock_sha256: str
    torch: str  #: cpu or cuda
    build_s: float


@dataclasses.dataclass(frozen=True)
class Source:
    """The source of a package that no index has: a commit."""

    package: str
    unpack: Callable[[Path], None]  #: writes its files into a folder that is not there yet


def build(
    locked: LockedStack,
    *,
    folder: Path,
    installer: Installer,
    gpu: bool,
    framework: str = "deepspeed",
    source: Source | None = None,
    waiting: Callable[[], None] = lambda: None,
) -> Environment:
    """The stack's environment under ``folder``: as it stands when it is whole, else built now.

    ``framework`` is the distribution whose code is hashed; ``source`` is what is built in place of the pin of its package;
    ``waiting`` is called when another run is building the same.
    A stack that does not install is an Environment with its ``failure``. Raises EnvironmentUnavailable where the machine
    is at fault.
    """
    place = _place(locked, folder, gpu=gpu)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with held(place.with_name(f"{place.name}.lock"), waiting):
            marker = _whole(place, locked)
            if marker is None:
                shutil.rmtree(place, ignore_errors=True)  # what a killed run left
                made = _make(place, locked, installer, gpu, source)
                if isinstance(made, Failed):
                    shutil.rmtree(place, ignore_errors=True)
                    return Environment(stack=locked.stack, lock_sha256=locked.sha256, failure=made)
                marker = made
            return _describe(place, locked, marker, framework)
    except OSError as error:
        hint = "free space, or set DSREGRESS_ENVIRONMENTS to a writable folder"
        raise EnvironmentUnavailable(f"cannot be written: {error.strerror}", where=str(place), hint=hint) from None


def existing(locked: LockedStack, *, folder: Path, gpu: bool, framework: str = "deepspeed") -> Environment | None:
    """The stack's environment where it stands and is whole, else None. Builds nothing and does not wait."""
    place = _place(locked, folder, gpu=gpu)
    marker = _whole(place, locked)
    return None if marker is None else _describe(place, locked, marker, framework)


def build_all(
    locked: Sequence[LockedStack],
    *,
    folder: Path,
    installer: Installer,
    gpu: bool,
    framework: str = "deepspeed",
    sources: Sequence[Source | None] = (),
    progress: Callable[[int, str, Environment | None], None] = lambda index, state, environment: None,
) -> tuple[Environment, ...]:
    """`build` for each, in the order given.

    ``sources`` holds one for each stack, or none at all. ``progress`` is called from other threads with the index of the
    stack and ``started``, ``waiting`` (another run builds it) or ``done`` with the environment. The first is built alone,
    as it fills uv's cache with all that the others share.
    """

    def one(index: int) -> Environment:
        progress(index, "started", None)
        built = build(
            locked[index], folder=folder, installer=installer, gpu=gpu, framework=framework,
            source=sources[index] if sources else None,
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


def _place(locked: LockedStack, folder: Path, *, gpu: bool) -> Path:
    return folder / "envs" / f"{locked.stack.id}-{locked.sha256[:12]}-{'gpu' if gpu else 'cpu'}"


def _make(place: Path, locked: LockedStack, installer: Installer, gpu: bool, source: Source | None) -> _Marker | Failed:
    began = time.monotonic()
    version = torch_version(locked.requirements)
    cpu_torch = installer.cpu_torch(version, locked.stack.python) if version and not gpu else None
    pins = without(locked.requirements, source.package) if source else locked.requirements
    lines = recipe(pins, gpu=gpu, cpu_torch=cpu_torch)
    failed = installer.create(place, locked.stack.python) or installer.install(interpreter(place), lines.requirements)
    if failed is None and source is not None:
        failed = _from_source(place, installer, source)
    if failed is not None:
        return failed
    marker = _Marker(lock_sha256=locked.sha256, torch=lines.torch, build_s=round(time.monotonic() - began, 3))
    write_atomically(place / _MARKER, msgspec.json.encode(marker))
    return marker


def _from_source(place: Path, installer: Installer, source: Source) -> Failed | None:
    """Builds in the environment's own folder, and leaves nothing of the source there: what is measured is installed."""
    with tempfile.TemporaryDirectory(prefix="source-", dir=place) as scratch:
        folder = Path(scratch) / source.package
        source.unpack(folder)
        return installer.install_source(interpreter(place), folder)


def _whole(place: Path, locked: LockedStack) -> _Marker | None:
    try:
        marker = msgspec.json.decode((place / _MARKER).read_bytes(), type=_Marker)
    except (OSError, msgspec.DecodeError):
        return None
    # The interpreter is a link to the system's, which may have been removed since.
    return marker if marker.lock_sha256 == locked.sha256 and interpreter(place).exists() else None


def _describe(place: Path, locked: LockedStack, marker: _Marker, framework: str) -> Environment:
    packages = site_packages(place)
    return Environment(
        stack=locked.stack,
        lock_sha256=locked.sha256,
        python=str(interpreter(place)),
        installed=inside.installed(packages),
        code_sha256=inside.code_sha256(packages, framework),
        build_s=marker.build_s,
    )


def site_packages(place: Path) -> Path:
    """Where the environment in ``place`` keeps what is installed."""
    return next((place / "lib").glob("python*/site-packages"))
