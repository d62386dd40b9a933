"""Estimates the disk space of environments before they are built, and refuses those that do not fit.

A stack with CUDA packages takes several GB, twice if uv has yet to unpack them into its cache.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dsregress.envs import inside
from dsregress.envs.installer import Installer
from dsregress.envs.places import SHARED, environment_folder, is_built
from dsregress.envs.venv import recipe_of
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import LockedStack
from dsregress.wording.quantities import plural, quantity

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MB = 1_000_000
_OTHER_BYTES = 500_000

#: From this size on a package is on the disk once for all environments, on average: see `dsregress.envs.apart`.
_SHARED_FROM_BYTES = 16 * _MB

#: Left free in addition to the estimate, for the files that a run writes.
_SPARE_BYTES = 100 * _MB

#: A smaller need is not worth a line.
_LEAST_BYTES = 100 * _MB


class DiskNeed(msgspec.Struct, frozen=True, kw_only=True):
    """The disk space of environments that are still to be built."""

    environments: int = 0
    own_bytes: int = 0  #: in the environments' folder
    cache_bytes: int = 0  #: in uv's cache
    notes: tuple[str, ...] = ()  #: lines for the user

    @property
    def text(self) -> str:
        """One line for the user, empty if the need is not worth one."""
        if self.own_bytes + self.cache_bytes < _LEAST_BYTES:
            return ""
        cache = f", and {quantity(self.cache_bytes, 'bytes')} in uv's cache" if self.cache_bytes else ""
        own = quantity(self.own_bytes, "bytes")
        return f"{plural(self.environments, 'environment')} to build: about {own} of disk{cache}"


def disk_need(locked: Sequence[LockedStack], folder: Path, installer: Installer, *, gpu: bool) -> DiskNeed:
    """Return the space that the environments of these stacks take in ``folder``, without those that are already built."""
    missing = [lock for lock in locked if not is_built(environment_folder(lock, folder, gpu=gpu))]
    if not missing:
        return DiskNeed()
    recipes = [recipe_of(lock, installer, gpu=gpu) for lock in missing]
    there, cached = _shared(folder), _cached(installer.cache_folder)
    once: dict[tuple[str, str], int] = {}
    own_bytes = 0
    for recipe in recipes:
        for name, version in _pinned_releases(recipe.requirements):
            size = _size_bytes(name, version)
            if size >= _SHARED_FROM_BYTES:
                once[name, version] = size
            else:
                own_bytes += size
    return DiskNeed(
        environments=len(missing),
        own_bytes=own_bytes + sum(size for package, size in once.items() if package not in there),
        cache_bytes=sum(size for package, size in once.items() if package not in cached),
        notes=tuple(dict.fromkeys(note for recipe in recipes for note in recipe.notes)),
    )


def check_room(need: DiskNeed, folder: Path, cache: Path) -> None:
    """Raise EnvironmentUnavailable if a disk has less room than the environments take, unless that is not worth a line."""
    if not need.text:
        return
    wanted: dict[int, int] = {}
    places: dict[int, Path] = {}
    for place, size in ((_nearest_existing(folder), need.own_bytes), (_nearest_existing(cache), need.cache_bytes)):
        device = os.stat(place).st_dev
        places.setdefault(device, place)
        wanted[device] = wanted.get(device, 0) + size
    for device, size in wanted.items():
        free = shutil.disk_usage(places[device]).free
        if size + _SPARE_BYTES > free:
            what = (
                f"{quantity(free, 'bytes')} of disk space are free, but {plural(need.environments, 'environment')} to build "
                f"{'takes' if need.environments == 1 else 'take'} about {quantity(size, 'bytes')}"
            )
            hint = (
                "free disk space (`clean` removes unused environments), or set DSREGRESS_ENVIRONMENTS to another disk"
            )
            raise EnvironmentUnavailable(what, where=str(places[device]), hint=hint)


@functools.cache
def _measured_sizes() -> Mapping[str, int]:
    content = Path(__file__).with_name("installed_sizes.toml").read_text(encoding="utf-8")
    return {name: size * _MB for name, size in tomllib.loads(content)["megabytes"].items()}


def _size_bytes(name: str, version: str) -> int:
    """Return the bytes that a release takes, by its canonical name."""
    build = f"{name}+cpu" if version.endswith("+cpu") else name
    sizes = _measured_sizes()
    return sizes.get(build, sizes.get(re.sub(r"-cu\d+$", "", name), _OTHER_BYTES))


def _pinned_releases(requirements: Iterable[str]) -> list[tuple[str, str]]:
    """Return name and version of each line that applies on this machine; a wheel's URL contains its version."""
    found: list[tuple[str, str]] = []
    for line in requirements:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            wheel = (requirement.url or "").partition("#")[0].rpartition("/")[2].replace("%2B", "+").split("-")
            version = wheel[1] if len(wheel) > 2 else str(requirement.specifier).lstrip("=")
            found.append((canonicalize_name(requirement.name), version))
    return found


def _shared(folder: Path) -> set[tuple[str, str]]:
    """Return name and version of the packages that environments in ``folder`` already share."""
    names = os.listdir(folder / SHARED) if (folder / SHARED).is_dir() else []
    return {_release_of_line(name.rpartition("-")[0]) for name in names if name.count("-") >= 2}


def _cached(cache: Path) -> set[tuple[str, str]]:
    """Return name and version of the packages that uv has already unpacked."""
    return {_release_of_line(info.name.removesuffix(".dist-info")) for info in cache.glob("archive-v*/*/*.dist-info")}


def _release_of_line(text: str) -> tuple[str, str]:
    name, _, version = text.partition("-")
    return canonicalize_name(inside.normal(name)), version


def _nearest_existing(place: Path) -> Path:
    """Return the folder itself, or the nearest existing one above it."""
    return next(above for above in (place.absolute(), *place.absolute().parents) if above.is_dir())
