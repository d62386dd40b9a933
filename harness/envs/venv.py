"""Locked stack -> virtual environment: built whole or not at all, reused while its lock is unchanged.

<folder>/envs/<stack id>-<lock12>-cpu/          the environment
<folder>/envs/<stack id>-<lock12>-cpu/dsregress.json   written last: its presence means that the environment is whole
<folder>/envs/<stack id>-<lock12>-cpu.lock      held while building, so that two runs at once do it once
<folder>/shared/                                large packages, see `harness.envs.apart`
<folder>/bytecode/                              what Python compiles, see `harness.envs.bytecode`
<folder>/edited/                                what was written into them, before it was undone
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import importlib.metadata
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement

from harness.envs import apart, bytecode, inside
from harness.envs.installer import Installer
from harness.envs.recipe import peers, recipe, without
from harness.errors import EnvironmentUnavailable
from harness.model import Environment, LockedStack, NotInstalled
from harness.probe.border.trees import remove_tree
from harness.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from harness.system.decoding import Damaged, decoded
from harness.system.files import write_atomically
from harness.system.locks import held
from harness.system.obstacles import refused

_MARKER = "dsregress.json"
_SHARED = "shared"

#: Environments built at once. Ten stacks on two cores with a warm cache: one at a time 19 s, two 13 s, three 28 s.
_AT_ONCE = 2

#: See `harness.envs.inside.edited`.
_Edited = dict[str, dict[str, str]]

#: 1: files were links into uv's cache. 2: the environment is apart.
_SCHEMA = 2


class _Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Describes a complete environment."""

    schema: int
    lock_sha256: str
    torch: str  #: cpu or cuda
    stamps: dict[str, str]  #: distribution -> see `harness.envs.inside.stamp`
    yanked: tuple[str, ...] = ()  #: lines for the user
    shared: dict[str, str]  #: distribution that other environments share -> its requirement


@dataclasses.dataclass(frozen=True)
class Source:
    """The source of a package that no index has: a commit."""

    package: str
    #: Writes its files into a folder that is not there yet; Failed where they cannot be had.
    unpack: Callable[[Path], NotInstalled | None]


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
            build_s = 0.0
            if marker is None:
                began = time.monotonic()
                _clear(place)
                try:
                    made = _make(place, folder, locked, installer, gpu, framework, source)
                except BaseException:
                    remove_tree(place)  # a full disk gets its space back
                    raise
                if isinstance(made, NotInstalled):
                    remove_tree(place)
                    return Environment(stack=locked.stack, lock_sha256=locked.sha256, failure=made)
                marker, notes = made
                build_s = round(time.monotonic() - began, 3)
                edited = inside.edited(site_packages(place), marker.stamps)
            else:
                edited, notes = _restore(place, folder, marker, installer, locked.stack.python)
            environment = _describe(place, locked, marker, framework, edited, notes)
            return msgspec.structs.replace(environment, build_s=build_s)
    except OSError as error:
        hint = "free space, or set DSREGRESS_ENVIRONMENTS to a writable folder"
        raise refused(EnvironmentUnavailable, "cannot be written", error, where=place, hint=hint) from None


def existing(locked: LockedStack, *, folder: Path, gpu: bool, framework: str = "deepspeed") -> Environment | None:
    """The stack's environment where it stands and is whole, else None. Builds nothing and does not wait."""
    place = _place(locked, folder, gpu=gpu)
    marker = _whole(place, locked)
    if marker is None:
        return None
    return _describe(place, locked, marker, framework, inside.edited(site_packages(place), marker.stamps))


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


def _clear(place: Path) -> None:
    """Remove what a killed run left. Its installer ends milliseconds after it, and may write meanwhile."""
    for _ in range(20):
        remove_tree(place)
        if not place.exists():
            return
        time.sleep(0.1)


def _make(
    place: Path,
    folder: Path,
    locked: LockedStack,
    installer: Installer,
    gpu: bool,
    framework: str,
    source: Source | None,
) -> tuple[_Marker, tuple[str, ...]] | NotInstalled:
    """The marker of an environment that is built now, with lines for the user."""
    cpu_builds = {} if gpu else installer.cpu_builds(locked.requirements, locked.stack.python)
    pins = without(locked.requirements, source.package) if source else locked.requirements
    lines = recipe(pins, gpu=gpu, cpu_builds=cpu_builds)
    failed = installer.create(place, locked.stack.python)
    if failed is not None:
        return failed
    installed = installer.install(interpreter(place), lines.requirements)
    if isinstance(installed, NotInstalled):
        return installed
    failed = _from_source(place, installer, source) if source is not None else None
    if failed is not None:
        return failed
    of_name = {inside.normal(Requirement(line).name): line for line in lines.requirements}

    def separate() -> apart.Separated:
        return apart.separate(
            place, site_packages(place), folder / _SHARED, framework=framework, named=peers(locked.stack)
        )

    separated = separate()
    notes: tuple[str, ...] = ()
    if damaged := {name: file for name, file in separated.damaged.items() if name in of_name}:
        file = next(iter(damaged.values()))
        what = f"{', '.join(damaged)}: {file} in the installer's cache is not what its wheel holds"
        if installer.install_anew(interpreter(place), [of_name[name] for name in damaged]) is not None:
            hint = f"uv cache clean {' '.join(damaged)}"
            raise EnvironmentUnavailable(f"{what}, and no index has it", where=str(place), hint=hint)
        separated = separate()
        if mended := sorted(damaged.keys() - separated.damaged.keys()):  # else its publisher's RECORD is wrong
            notes = (f"{what}: installed without the cache (uv cache clean {' '.join(mended)})",)
    excluded = {inside.normal(framework), *separated.damaged}
    bytecode.share(site_packages(place), separated.records, folder / "bytecode", excluded=excluded)
    marker = _Marker(
        schema=_SCHEMA,
        lock_sha256=locked.sha256,
        torch=lines.torch,
        stamps=separated.stamps,
        yanked=installed,
        shared={name: of_name[name] for name in separated.shared if name in of_name},
    )
    write_atomically(place / _MARKER, msgspec.json.encode(marker))
    return marker, notes


def _restore(
    place: Path, folder: Path, marker: _Marker, installer: Installer, python: str
) -> tuple[_Edited, tuple[str, ...]]:
    """Undo what was written into files that other environments share. Returns what is still edited, and lines for the user.

    Raises EnvironmentUnavailable where the packages cannot be had again.
    """
    packages = site_packages(place)
    edited = inside.edited(packages, marker.stamps)
    notes = []
    for name, changes in edited.items():
        files = [file for file in changes if apart.is_shared(packages / file)]
        if not files or name not in marker.shared:
            continue
        kept = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_made(folder / "edited")))
        for file in files:
            (kept / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(packages / file, kept / file)
        if not apart.restore(packages, folder / _SHARED, name, files):
            _share_anew(folder, name, marker.shared[name], installer, python)
            if not apart.restore(packages, folder / _SHARED, name, files):
                hint = f"the edited text is in {kept}; move {place} away, and the next run builds it again"
                raise EnvironmentUnavailable(f"{_edit(name, files)}, and is shared", where=str(place), hint=hint)
        notes.append(
            f"{_edit(name, files)} where all environments share it: restored; the edited text is in {kept}; "
            "replace the file, instead of writing into it, to edit one environment"
        )
    return inside.edited(packages, marker.stamps) if notes else edited, tuple(notes)


def _share_anew(folder: Path, name: str, requirement: str, installer: Installer, python: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".restoring-", dir=folder / "envs") as scratch:
        place = Path(scratch) / "environment"
        failed = installer.create(place, python) or installer.install(interpreter(place), [requirement])
        if isinstance(failed, NotInstalled):
            raise EnvironmentUnavailable(
                f"{name} was edited where all environments share it, and cannot be installed again: {failed.signature}",
                where=str(folder / _SHARED),
                hint=f"move {folder / 'envs'} away, and the next run builds them again",
            )
        apart.separate(place, site_packages(place), folder / _SHARED, framework="", named=())


def _edit(name: str, files: Sequence[str]) -> str:
    if len(files) == 1:
        return f"{name}: {files[0]} was edited"
    return f"{name}: {files[0]} and {len(files) - 1} more were edited"


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _from_source(place: Path, installer: Installer, source: Source) -> NotInstalled | None:
    """Builds in the environment's own folder, and leaves nothing of the source there: what is measured is installed."""
    scratch = Path(tempfile.mkdtemp(prefix="source-", dir=place))
    try:
        folder = scratch / source.package
        failed = source.unpack(folder)
        return failed if failed is not None else installer.install_source(interpreter(place), folder)
    finally:
        remove_tree(scratch)  # the build ran code of the source


_marker = msgspec.json.Decoder(_Marker)


def _whole(place: Path, locked: LockedStack) -> _Marker | None:
    try:
        marker = decoded(_marker, read_regular(place / _MARKER, MOST_FILE_BYTES))
    except (OSError, Damaged):  # what runs in an environment can write to it
        return None
    # The interpreter is a link to the system's, which may have been removed since.
    fits = marker.schema == _SCHEMA and marker.lock_sha256 == locked.sha256
    return marker if fits and interpreter(place).exists() else None


def _describe(
    place: Path,
    locked: LockedStack,
    marker: _Marker,
    framework: str,
    edited: _Edited,
    notes: tuple[str, ...] = (),
) -> Environment:
    packages = site_packages(place)
    reports = (f"{_edit(name, sorted(files))} in {place.name}: that code is measured" for name, files in edited.items())
    return Environment(
        stack=locked.stack,
        lock_sha256=locked.sha256,
        python=str(interpreter(place)),
        installed=inside.installed(packages),
        demands=inside.demands(importlib.metadata.distributions(path=[str(packages)]), locked.stack.versions),
        code_sha256=inside.code_sha256(packages, framework, peers(locked.stack), edited),
        notes=(*marker.yanked, *notes, *reports),
    )


def site_packages(place: Path) -> Path:
    """Where the environment in ``place`` keeps what is installed."""
    return next((place / "lib").glob("python*/site-packages"))
