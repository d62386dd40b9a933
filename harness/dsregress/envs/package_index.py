"""Queries the user's package indexes for the releases of a package, and for its builds for the CPU."""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from dsregress.envs import signatures
from dsregress.envs.package_commands import PackageCommands, output_of
from dsregress.envs.recipe import CpuBuilds, built_for_cpu
from dsregress.errors import EnvironmentUnavailable, Offline, UsageError
from dsregress.model import AXES
from dsregress.system.scratch_folders import scratch_folder

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: PyTorch's index of CPU builds, in case the user's own indexes have none. uv's ``--torch-backend cpu`` would take
#: torch from this index alone, whatever the user's indexes and folders have.
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu/"

#: Time that PyTorch's index may take to answer, as variables of uv: it is optional.
_PATIENCE = {"UV_HTTP_TIMEOUT": "5", "UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "1"}

_PLACE = "package index"

#: What pip says, when asked for details, of a file that it does not take since its publisher yanked it.
_YANKED_FILE = re.compile(r"Skipping link: yanked for reason: (.*): (\S+) \(from ")
_NO_REASON = "<none given>"


def published_releases(commands: PackageCommands, package: str, python: str = "") -> tuple[str, ...]:
    """Return all releases that the user's indexes list, pre-releases and builds (``+cpu``) included, yanked ones excluded.

    For the running Python, or for ``python`` ("3.12"). For ``name==version`` only that release, if it exists, even if it is
    yanked. Where the commands know releases as of a day, later ones are excluded.

    Raise UsageError if the indexes do not have the package, its subclass Offline if none may be used, and
    EnvironmentUnavailable if one cannot be queried.
    """
    if "==" in package:
        return (package.partition("==")[2],) if _index_has(commands, package) else ()
    return _query_releases(commands, package, python)


@functools.lru_cache(maxsize=64)
def _query_releases(commands: PackageCommands, package: str, python: str) -> tuple[str, ...]:
    if commands.offline:
        hint = "run once without DSREGRESS_OFFLINE"
        raise Offline(f"offline: cannot look up releases of {package}", where=_PLACE, hint=hint)
    options = ["--pre", "--json", "--retries", "1", "--timeout", "15"]
    options += ["--python-version", python] if python else []
    options += ["--uploaded-prior-to", commands.known_until] if commands.as_of else []
    done = commands.run_pip("index", "versions", package, *options)
    if done.returncode == 0:
        listed = tuple(json.loads(done.stdout)["versions"])
        return _known_then(commands, package, listed) if commands.as_of else listed
    if "does not provide upload-time" in output_of(done):
        what = f"a package index does not say when its releases of {package} were uploaded"
        raise UsageError(what, where="--as-of", hint="use one that does, as pypi.org (see pip config list)")
    # pip says the same for a package that is not there and for an index that has failed.
    try:
        _index_has(commands, package)
    except EnvironmentUnavailable as error:
        hint = "check the network and pip config list; committed releases need no index"
        raise EnvironmentUnavailable(
            f"no index responds for {package}: {error.what}", where=_PLACE, hint=hint
        ) from None
    hint = "check the name and pip config list"
    raise UsageError(f"no configured index has a package {package!r}", where=_PLACE, hint=hint)


def yanked_releases(commands: PackageCommands, package: str) -> dict[str, str]:
    """Return the releases of which the user's indexes have only yanked files, each with the publisher's reason, which may
    be empty. Raise as `published_releases` does."""
    listed = set(map(Version, published_releases(commands, package)))
    done = commands.run_pip("index", "versions", package, "--pre", "-vv", "--retries", "1", "--timeout", "15")
    found: dict[str, str] = {}
    for reason, url in _YANKED_FILE.findall(output_of(done)):
        version = _version_of_file(url.partition("#")[0].rpartition("/")[2])
        if version is not None and version not in listed:
            found.setdefault(str(version), "" if reason == _NO_REASON else reason.strip())
    return found


def _version_of_file(name: str) -> Version | None:
    """Return the version in the name of a wheel or a source; None for other files."""
    try:
        return parse_wheel_filename(name)[1] if name.endswith(".whl") else parse_sdist_filename(name)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def _known_then(commands: PackageCommands, package: str, listed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the listed releases up to the newest on the last known day: final ones, and pre-releases. Whatever the day, pip
    lists what a folder of wheels or an index without upload times has; uv does not take it."""
    newest = {
        is_prerelease: _newest_then(commands, package, "allow" if is_prerelease else "if-necessary")
        for is_prerelease in (False, True)
    }
    known = []
    for text in listed:
        version = Version(text.partition("+")[0])
        limit = newest[version.is_prerelease]
        if limit is not None and version <= limit:
            known.append(text)
    return tuple(known)


def _newest_then(commands: PackageCommands, package: str, prereleases: str) -> Version | None:
    """Return the newest release on the last known day; None without one."""
    done = commands.resolve_alone(package, "--universal", "--prerelease", prereleases, **commands.exclude_newer)
    found = re.search(r"^\S+?==([^\s;+]+)", done.stdout, re.MULTILINE)
    return Version(found[1]) if done.returncode == 0 and found else None


def _index_has(commands: PackageCommands, requirement: str) -> bool:
    """Return True if an index has a release. Raise EnvironmentUnavailable if one cannot be queried."""
    done = commands.resolve_alone(requirement, "--universal", "--prerelease", "allow", **commands.exclude_newer)
    if done.returncode == 0:
        return True
    if commands.offline:  # then it is not in uv's cache
        return False
    commands.failure(done, _PLACE)
    return not signatures.is_missing(output_of(done))


def upload_day(commands: PackageCommands, package: str, version: str) -> str:
    """Return the day on which the first file of a release was uploaded, ``2025-02-20``; empty if no index says it. Raise
    EnvironmentUnavailable if one cannot be queried."""
    options = ("--universal", "--prerelease", "allow", "--format", "pylock.toml")
    done = commands.resolve_alone(f"{package}=={version}", *options)
    listed = tomllib.loads(done.stdout).get("packages", ()) if done.returncode == 0 else ()
    files = [file for one in listed for file in (*one.get("wheels", ()), *([one["sdist"]] if "sdist" in one else ()))]
    return min((file["upload-time"].date().isoformat() for file in files if "upload-time" in file), default="")


def later_torch(commands: PackageCommands, requirements: Sequence[str], python: str) -> tuple[str, ...]:
    """Return torch and the packages that it requires if ``requirements`` pin one that came after the last known day: only
    such a one may have a build for the CPU. Empty otherwise."""
    release = _pinned_later(commands, "torch", requirements)
    return _required_by(commands, f"torch=={release}", python) if release else ()


def later_partners(commands: PackageCommands, requirements: Sequence[str]) -> tuple[str, ...]:
    """Return the other usual packages of which ``requirements`` pin a release that came after the last known day: one that
    runs with such a torch. What they require is of the day."""
    return tuple(name for name in AXES if name != "torch" and _pinned_later(commands, name, requirements))


def _pinned_later(commands: PackageCommands, package: str, requirements: Sequence[str]) -> str:
    """Return the release of a package that is pinned and that was not known on the last known day; empty without one."""
    pinned = [one for line in requirements if (one := Requirement(line)).name == package]
    versions = [spec.version for one in pinned for spec in one.specifier if spec.operator in ("==", "===")]
    return versions[0] if versions and versions[0] not in _query_releases(commands, package, "") else ""


@functools.lru_cache(maxsize=16)
def _required_by(commands: PackageCommands, requirement: str, python: str) -> tuple[str, ...]:
    """Return the names of a package and of all that it requires, as far as an index has them."""
    with scratch_folder() as folder:
        file = folder / "requirements.txt"
        file.write_text(f"{requirement}\n", encoding="utf-8")
        options = ("--universal", "--no-header", "--no-annotate", "--quiet", "--python", sys.executable)
        done = commands.run_uv("pip", "compile", *options, "--python-version", python, str(file))
    return tuple(Requirement(line).name for line in done.stdout.splitlines() if "==" in line)


def declared_requirements(commands: PackageCommands, package: str, version: str) -> list[str] | None:
    """Return the requirements in a wheel's metadata; None if a release has no wheel. Install nothing."""
    options = ["--dry-run", "--no-deps", "--ignore-installed", "--only-binary", ":all:", "--quiet", "--report", "-"]
    options.append("--use-feature=fast-deps")  # reads it from a wheel's end if the index does not have it beside
    python = ["--python-version", "3.12", "--target", "unused"]  # pip takes another Python's wheels only for a target
    done = commands.run_pip("install", *options, *python, f"{package}=={version}")
    if done.returncode != 0:
        return None
    (installed,) = json.loads(done.stdout)["install"]
    return list(installed["metadata"].get("requires_dist", ()))


def later_wheels(commands: PackageCommands, pins: Mapping[str, str], python: str) -> dict[str, str]:
    """Return, of pinned releases (package -> release), those of compiled packages that have no wheel for ``python``, each
    with the first later release that has one. Their builds take minutes, and mostly fail."""
    if commands.offline or not pins:
        return {}
    found = _first_wheels(commands, pins, python)
    if found is None:  # one of them has no wheel of any release
        alone = (_first_wheels(commands, {name: pin}, python) or {} for name, pin in pins.items())
        found = {name: wheel for one in alone for name, wheel in one.items()}
    return {
        name: wheel.version
        for name, wheel in found.items()
        if wheel.is_compiled and Version(wheel.version) != Version(pins[name])
    }


class _Wheel(NamedTuple):
    version: str
    is_compiled: bool


def _first_wheels(commands: PackageCommands, pins: Mapping[str, str], python: str) -> dict[str, _Wheel] | None:
    """Return the first release of each package from its pin on that has a wheel; None if one has none."""
    lines = "\n".join(f"{name}>={pin}" for name, pin in pins.items())
    options = ["--only-binary", ":all:", "--resolution", "lowest-direct", "--python-version", python]
    done = commands.resolve_alone(lines, *options, "--format", "pylock.toml", **commands.exclude_newer)
    if done.returncode != 0:
        return None
    return {
        canonicalize_name(one["name"]): _Wheel(one["version"], "-any.whl" not in str(wheels[0]))
        for one in tomllib.loads(done.stdout).get("packages", ())
        if (wheels := one.get("wheels"))
    }


def find_cpu_builds(commands: PackageCommands, requirements: Sequence[str], python: str) -> CpuBuilds:
    """Return the requirements that yield CPU builds of torch, and of its companions, at the versions that a lock pins; by
    package, as far as they are available."""
    found: dict[str, str] = {}
    unknown = ""
    for package, version in built_for_cpu(requirements).items():
        try:
            requirement = _cpu_build(commands, package, version, python)
        except EnvironmentUnavailable as error:
            unknown = error.what
        else:
            found |= {package: requirement} if requirement else {}
    return CpuBuilds(requirements=found, unknown=unknown)


@functools.lru_cache(maxsize=256)  # which keeps no exception: an index that could not be asked is asked again
def _cpu_build(commands: PackageCommands, package: str, version: str, python: str) -> str:
    """Return its requirement, empty if no index has the build. Raise EnvironmentUnavailable if one fails."""
    build = f"{package}=={version}+cpu"
    done = commands.resolve_alone(build, "--python-version", python)
    if done.returncode == 0:
        return build
    if commands.offline or commands.pip.no_index:
        return ""
    options = ["--default-index", PYTORCH_CPU_INDEX, "--format", "pylock.toml", "--python-version", python]
    done = commands.resolve_alone(build, *options, **_PATIENCE)
    if done.returncode != 0:
        commands.failure(done, PYTORCH_CPU_INDEX)
        return ""
    (locked,) = tomllib.loads(done.stdout)["packages"]
    wheel = locked["wheels"][0]
    digest = wheel.get("hashes", {}).get("sha256")
    return f"{package} @ {wheel['url']}{f'#sha256={digest}' if digest else ''}"
