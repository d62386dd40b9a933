"""Locked stack -> virtual environment: built whole or not at all, reused while its lock is unchanged.

<folder>/envs/<stack id>-<lock12>-cpu/          the environment
<folder>/envs/<stack id>-<lock12>-cpu/dsregress.json   written last: its presence means that the environment is whole
<folder>/envs/<stack id>-<lock12>-cpu.lock      held while building, so that two runs at once do it once
<folder>/shared/                                large packages, see `dsregress.envs.apart`
<folder>/bytecode/                              what Python compiles, see `dsregress.envs.bytecode`
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import importlib.metadata
import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement

from dsregress.envs import apart, bytecode, inside
from dsregress.envs.bytecode_checks import check_bytecode
from dsregress.envs.installer import Installed, Installer
from dsregress.envs.places import BYTECODE, MARKER, SHARED, environment_folder, interpreter, site_packages
from dsregress.envs.recipe import CpuBuilds, Recipe, peers, recipe, without_pins_of
from dsregress.envs.restoring import Edits, edit_text, undo_shared_edits
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import Environment, LockedStack, NotInstalled
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.system.decoding import Damaged, decoded
from dsregress.system.files import write_atomically
from dsregress.system.locks import held
from dsregress.system.obstacles import obstacle_error
from vgpu.trees import remove_tree

_LOG = logging.getLogger(__package__)

#: Environments built at once. Ten stacks on two cores with a warm cache: one at a time 19 s, two 13 s, three 28 s.
_AT_ONCE = 2

#: 1: files were links into uv's cache. 2: the environment is apart.
_SCHEMA = 2


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Describes a complete environment."""

    schema: int
    lock_sha256: str
    torch: str  #: cpu or cuda
    stamps: dict[str, str]  #: distribution -> see `dsregress.envs.inside.stamp`
    yanked: tuple[str, ...] = ()  #: lines for the user
    shared: dict[str, str]  #: distribution that other environments share -> its requirement
    bytecode: tuple[str, ...] = ()  #: folders of bytecode that other environments share


@dataclasses.dataclass(frozen=True)
class Source:
    """The source of a package that no index has: a commit."""

    package: str
    #: Writes its files into a folder that does not exist yet; Failed if they are unavailable.
    unpack: Callable[[Path], NotInstalled | None]


def build_venv(
    locked: LockedStack,
    *,
    folder: Path,
    installer: Installer,
    gpu: bool,
    framework: str = "deepspeed",
    source: Source | None = None,
    waiting: Callable[[], None] = lambda: None,
) -> Environment:
    """Return the stack's environment under ``folder``: the existing one if it is whole, else one built now.

    ``framework`` is the distribution whose code is hashed; ``source`` is built in place of the pin of its package;
    ``waiting`` is called when another run is building the same.

    A stack that does not install is an Environment with its ``failure``. Raise EnvironmentUnavailable if the machine is at
    fault.
    """
    place = environment_folder(locked, folder, gpu=gpu)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = place.with_name(f"{place.name}.lock")
        with held(lock, waiting):
            os.utime(lock)  # when it was used last: what `clean` removes first was used least recently
            marker = _marker_if_whole(place, locked)
            build_s = 0.0
            if marker is None:
                _LOG.debug("%s: build %s", locked.stack.id, place)
                began = time.monotonic()
                _clear(place)
                with contextlib.ExitStack() as on_failure:
                    on_failure.callback(remove_tree, place)  # a full disk gets its space back
                    made = _make_venv(place, folder, locked, installer, gpu, framework, source)
                    on_failure.pop_all()
                if isinstance(made, NotInstalled):
                    remove_tree(place)
                    took_s = time.monotonic() - began
                    _LOG.debug("%s: not built, %.1f s: %s", locked.stack.id, took_s, made.signature)
                    return Environment(stack=locked.stack, lock_sha256=locked.sha256, failure=made)
                marker, notes = made
                build_s = round(time.monotonic() - began, 3)
                _LOG.debug("%s: built in %.1f s", locked.stack.id, build_s)
                edited = inside.edited(site_packages(place), marker.stamps)
            else:
                _LOG.debug("%s: reuse %s", locked.stack.id, place)
                edited, notes = undo_shared_edits(
                    place, folder, installer, locked.stack.python, stamps=marker.stamps, shared=marker.shared
                )
            compiled = check_bytecode(folder / BYTECODE, marker.bytecode, interpreter(place))
            environment = _environment_of(place, locked, marker, framework, edited, (*notes, *compiled))
            return msgspec.structs.replace(environment, build_s=build_s)
    except OSError as error:
        hint = "free space, or set DSREGRESS_ENVIRONMENTS to a writable folder"
        raise obstacle_error(EnvironmentUnavailable, "cannot be written", error, where=place, hint=hint) from None


def existing_venv(locked: LockedStack, *, folder: Path, gpu: bool, framework: str = "deepspeed") -> Environment | None:
    """Return the stack's existing environment if it is whole, else None. Build nothing, and do not wait."""
    place = environment_folder(locked, folder, gpu=gpu)
    marker = _marker_if_whole(place, locked)
    if marker is None:
        return None
    return _environment_of(place, locked, marker, framework, inside.edited(site_packages(place), marker.stamps))


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
    """Build each stack as `build` does, and return the environments in the order given.

    ``sources`` has one for each stack, or is empty. ``progress`` is called from other threads with the index of the stack
    and ``started``, ``waiting`` (another run builds it) or ``done`` with the environment. The first is built alone, as it
    fills uv's cache with everything that the others share.
    """

    def one(index: int) -> Environment:
        progress(index, "started", None)
        built = build_venv(
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
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(pool.shutdown, cancel_futures=True)
            built = (first, *(future.result() for future in futures))
            on_failure.pop_all()
        return built


def _clear(place: Path) -> None:
    """Remove the remains of a killed run. Its installer ends milliseconds after it, and may write meanwhile."""
    for _ in range(20):
        remove_tree(place)
        if not place.exists():
            return
        time.sleep(0.1)


def _make_venv(
    place: Path,
    folder: Path,
    locked: LockedStack,
    installer: Installer,
    gpu: bool,
    framework: str,
    source: Source | None,
) -> tuple[Marker, tuple[str, ...]] | NotInstalled:
    """Build an environment now. Return its marker, with lines for the user."""
    lines = recipe_of(locked, installer, gpu=gpu, source=source)
    failed = installer.create(place, locked.stack.python)
    if failed is not None:
        return failed
    installed = installer.install(interpreter(place), lines.requirements)
    if not isinstance(installed, Installed):
        return installed
    failed = _from_source(place, installer, source) if source is not None else None
    if failed is not None:
        return failed
    of_name = {inside.normal(Requirement(line).name): line for line in lines.requirements}

    def separate() -> apart.Separated:
        return apart.separate(
            place, site_packages(place), folder / SHARED, framework=framework, named=peers(locked.stack)
        )

    separated, mended = _without_damage(place, installer, of_name, separate)
    excluded = {inside.normal(framework), *separated.damaged}
    linked = bytecode.share_bytecode(site_packages(place), separated.records, folder / BYTECODE, excluded=excluded)
    marker = Marker(
        schema=_SCHEMA,
        lock_sha256=locked.sha256,
        torch=lines.torch,
        stamps=separated.stamps,
        yanked=installed.yanked,
        shared={name: of_name[name] for name in separated.shared if name in of_name},
        bytecode=linked,
    )
    write_atomically(place / MARKER, msgspec.json.encode(marker))
    return marker, (*lines.notes, *installed.notes, *mended)


def recipe_of(locked: LockedStack, installer: Installer, *, gpu: bool, source: Source | None = None) -> Recipe:
    """Return the packages of a stack's environment on this machine, apart from the ``source`` that is built in place of a
    pin."""
    cpu_builds = CpuBuilds() if gpu else installer.cpu_builds(locked.requirements, locked.stack.python)
    pins = without_pins_of(locked.requirements, source.package) if source else locked.requirements
    return recipe(pins, gpu=gpu, cpu_builds=cpu_builds)


def _without_damage(
    place: Path, installer: Installer, of_name: Mapping[str, str], separate: Callable[[], apart.Separated]
) -> tuple[apart.Separated, tuple[str, ...]]:
    """Install again the packages that differ from their wheels in the installer's cache. Return lines for the user."""
    separated = separate()
    damaged = {name: file for name, file in separated.damaged.items() if name in of_name}
    if not damaged:
        return separated, ()
    what = f"{', '.join(damaged)}: {next(iter(damaged.values()))} in the installer's cache differs from its wheel"
    if installer.install_anew(interpreter(place), [of_name[name] for name in damaged]) is not None:
        hint = f"uv cache clean {' '.join(damaged)}"
        raise EnvironmentUnavailable(f"{what}, and no index provides it", where=str(place), hint=hint)
    separated = separate()
    mended = sorted(damaged.keys() - separated.damaged.keys())
    if not mended:  # its publisher's RECORD is wrong
        return separated, ()
    return separated, (f"{what}: installed without the cache (uv cache clean {' '.join(mended)})",)


def _from_source(place: Path, installer: Installer, source: Source) -> NotInstalled | None:
    """Build in the environment's own folder, and leave nothing of the source in it: the installed package is measured."""
    scratch = Path(tempfile.mkdtemp(prefix="source-", dir=place))
    try:
        folder = scratch / source.package
        failed = source.unpack(folder)
        return failed if failed is not None else installer.install_source(interpreter(place), folder)
    finally:
        remove_tree(scratch)  # the build ran code of the source


_marker = msgspec.json.Decoder(Marker)


def read_marker(place: Path) -> Marker | None:
    """Return the description of the environment in ``place``, None if it is not complete."""
    try:
        return decoded(_marker, read_regular(place / MARKER, MOST_FILE_BYTES))
    except (OSError, Damaged):  # what runs in an environment can write to it
        return None


def _marker_if_whole(place: Path, locked: LockedStack) -> Marker | None:
    marker = read_marker(place)
    if marker is None:
        return None
    # The interpreter is a link to the system's, which may have been removed since.
    fits = marker.schema == _SCHEMA and marker.lock_sha256 == locked.sha256
    return marker if fits and interpreter(place).exists() else None


def _environment_of(
    place: Path,
    locked: LockedStack,
    marker: Marker,
    framework: str,
    edited: Edits,
    notes: tuple[str, ...] = (),
) -> Environment:
    packages = site_packages(place)
    reports = (
        f"{edit_text(name, sorted(files))} in {place.name}: that code is measured" for name, files in edited.items()
    )
    return Environment(
        stack=locked.stack,
        lock_sha256=locked.sha256,
        python=str(interpreter(place)),
        installed=inside.installed(packages),
        demands=inside.demands(importlib.metadata.distributions(path=[str(packages)]), locked.stack.versions),
        code_sha256=inside.code_sha256(packages, framework, peers(locked.stack), edited),
        notes=(*marker.yanked, *notes, *reports),
    )
