"""Makes environments with uv: resolves a stack, creates an environment, and installs into it.

A damaged entry of uv's cache fails an installation as a broken release does. So packages that uv cannot install are
installed once more without the cache before a failure counts as the release's.
"""

from __future__ import annotations

import itertools
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dsregress.envs import package_index, signatures
from dsregress.envs.package_commands import PackageCommands, output_of
from dsregress.envs.recipe import CpuBuilds
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import NotInstalled
from dsregress.system.scratch_folders import scratch_folder

#: uv links files from its cache, whatever the user's UV_LINK_MODE: `dsregress.envs.apart` copies the necessary ones.
_LINKS = ("--link-mode", "hardlink")

#: What the probe needs in each environment: pytest, pytest-benchmark and what they require. The day of a stack does not
#: limit these, of which older releases will not do.
_OF_THE_PROBE = ("pytest", "pytest-benchmark", "pluggy", "iniconfig", "pygments", "exceptiongroup", "tomli")

#: A day after all uploads.
_FAR = "2100-01-01"

_WITHOUT_CACHE = ("--no-cache", "--reinstall")


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """Lines for the user about what was installed."""

    yanked: tuple[str, ...] = ()  #: one for each release that its publisher has yanked
    notes: tuple[str, ...] = ()  #: one for each that was installed without uv's cache


class Installer(PackageCommands):
    """Makes environments."""

    def compile(self, source: Path, output: Path, python: str, overrides: Path | None = None) -> NotInstalled | None:
        """Resolve ``source`` for every Python from ``python`` on. Pins that ``output`` holds are kept if possible, and
        requirements in ``overrides`` whatever else is required."""
        # Our own interpreter reads the packages' metadata; uv would otherwise look for, or download, one of ``python``.
        options = ["--universal", "--python-version", python, "--python", sys.executable]
        options += ["--no-header", "--no-annotate", "--quiet"]
        options += ["--override", str(overrides)] if overrides is not None else []
        if self.as_of:
            lines = source.read_text("utf-8").splitlines()
            later = package_index.later_torch(self, lines, python), package_index.later_partners(self, lines)
            whenever = (*_OF_THE_PROBE, *itertools.chain(*later))
            options += [word for name in whenever for word in ("--exclude-newer-package", f"{name}={_FAR}")]
        done = self.run_uv("pip", "compile", *options, str(source), "--output-file", str(output), **self.exclude_newer)
        return None if done.returncode == 0 else self.failure(done, "resolving a stack")

    def as_of_day(self, day: str) -> Installer:
        """Return an installer to which the releases until this day are known; all, if it is empty."""
        return Installer(environment=self.environment, pip=self.pip, uv=self.uv, offline=self.offline, as_of=day)

    def published(self, package: str, python: str = "") -> tuple[str, ...]:
        """See `dsregress.envs.package_index.published_releases`."""
        return package_index.published_releases(self, package, python)

    def yanked_releases(self, package: str) -> dict[str, str]:
        """See `dsregress.envs.package_index.yanked_releases`."""
        return package_index.yanked_releases(self, package)

    def upload_day(self, package: str, version: str) -> str:
        """See `dsregress.envs.package_index.upload_day`."""
        return package_index.upload_day(self, package, version)

    def declared_requirements(self, package: str, version: str) -> list[str] | None:
        """See `dsregress.envs.package_index.declared_requirements`."""
        return package_index.declared_requirements(self, package, version)

    def cpu_builds(self, requirements: Sequence[str], python: str) -> CpuBuilds:
        """See `dsregress.envs.package_index.find_cpu_builds`."""
        return package_index.find_cpu_builds(self, requirements, python)

    def later_wheels(self, pins: Mapping[str, str], python: str) -> dict[str, str]:
        """See `dsregress.envs.package_index.later_wheels`."""
        return package_index.later_wheels(self, pins, python)

    def create(self, folder: Path, python: str) -> NotInstalled | None:
        """Make an empty virtual environment of Python ``python`` ("3.11") in ``folder``."""
        ours = f"{sys.version_info.major}.{sys.version_info.minor}"
        program = sys.executable if python == ours else python
        done = self.run_uv("venv", "--quiet", "--no-project", "--python", program, str(folder))
        return None if done.returncode == 0 else self.failure(done, str(folder))

    def install(self, python: Path, requirements: Sequence[str]) -> NotInstalled | Installed:
        """Make the environment of the interpreter ``python`` hold exactly ``requirements``, which are complete."""
        failed, output = self._install(python, requirements)
        if failed is None:
            return Installed(yanked=yanked(output))
        if entry := signatures.unreadable_entry(output):
            return self._install_past_cache(python, requirements, entry, output)
        package = signatures.failed_build(output)
        if not package:
            return failed
        # Some releases' setup imports torch, which an isolated build does not have: build it in the environment itself.
        late = _of_package(requirements, package)
        rest = self.install(python, [line for line in requirements if line not in late])
        if not isinstance(rest, Installed):
            return rest
        again, output = self._install(python, late, "--no-build-isolation", sync=False)
        return failed if again is not None else msgspec.structs.replace(rest, yanked=(*rest.yanked, *yanked(output)))

    def install_anew(self, python: Path, requirements: Sequence[str]) -> NotInstalled | None:
        """Install ``requirements`` again over the present ones, from the index and not from a cache."""
        failed, output = self._install(python, requirements, *_WITHOUT_CACHE, sync=False)
        if failed is not None and signatures.failed_build(output):
            again, _ = self._install(python, requirements, *_WITHOUT_CACHE, "--no-build-isolation", sync=False)
            return None if again is None else failed
        return failed

    def install_source(self, python: Path, folder: Path) -> NotInstalled | None:
        """Build the source in ``folder`` and install it into an environment that has all its requirements.

        First with the environment's own build tools, which need no index and can import torch, as some setups require; then,
        for a build backend that is not among them, isolated as pip would.
        """
        first: NotInstalled | None = None
        for options in (("--no-build-isolation",), (), ("--no-cache",)):
            command = ("pip", "install", "--no-deps", *_LINKS, *options, str(folder), "--python", str(python))
            done = self.run_uv(*command)
            if done.returncode == 0:
                return None
            if first is None:
                first = signatures.build_failure(output_of(done), folder.name)
            elif not signatures.unreadable_entry(output_of(done)):
                return first
        return first

    def install_beside(
        self, python: Path, requirements: Sequence[str], *, there: Mapping[str, str], preferred: str, target: Path
    ) -> NotInstalled | None:
        """Put ``requirements`` into the folder ``target``, for the interpreter ``python``, whose environment stays as it is:
        with all their requirements, without those that are already ``there`` (distribution -> version).

        ``preferred`` is a lock whose versions are taken if possible.
        """
        with scratch_folder() as folder:
            source, constraints, output = (folder / name for name in ("in.txt", "there.txt", "out.txt"))
            source.write_text("\n".join(requirements) + "\n", encoding="utf-8")
            fixed = [f"{name}=={version}\n" for name, version in there.items() if _is_version(version)]
            constraints.write_text("".join(fixed), encoding="utf-8")
            output.write_text(preferred, encoding="utf-8")
            options = ["--python", str(python), "--no-header", "--no-annotate", "--quiet"]
            options += ["--constraint", str(constraints), "--output-file", str(output)]
            done = self.run_uv("pip", "compile", *options, str(source))
            if done.returncode != 0:
                return self.failure(done, "what the probe needs")
            lines = [line for line in output.read_text(encoding="utf-8").splitlines() if "==" in line]
            names = {canonicalize_name(name) for name in there}
            missing = [line for line in lines if canonicalize_name(line.partition("==")[0]) not in names]
            source.write_text("\n".join(missing) + "\n", encoding="utf-8")
            options = ["--python", str(python), "--target", str(target), "--no-deps", "--quiet"]
            options += ["--link-mode", "copy"]  # what is measured can write to it, and must not reach the cache
            command = ("pip", "install", *options, "--requirements", str(source))
            done = self.run_uv(*command)
            if done.returncode != 0 and signatures.unreadable_entry(output_of(done)):
                done = self.run_uv(*command, *_WITHOUT_CACHE)
        return None if done.returncode == 0 else self.failure(done, "what the probe needs")

    def _install_past_cache(
        self, python: Path, requirements: Sequence[str], entry: signatures.UnreadableEntry, output: str
    ) -> NotInstalled | Installed:
        """Install the package whose entry in uv's cache could not be read from the index, and the others as usual."""
        # An entry that no line asks for is a tool of a build.
        package = signatures.failed_build(output) or entry.package
        past = _of_package(requirements, package) or list(requirements)
        _forget(python, entry.package)
        rest = self.install(python, [line for line in requirements if line not in past])
        if not isinstance(rest, Installed):
            return rest
        hint = f"uv cache clean {entry.package}"
        try:
            failed = self.install_anew(python, past)
        except EnvironmentUnavailable as error:
            what = (
                f"{entry.package} in uv's cache is damaged ({entry.cause}) and cannot be downloaded again: {error.what}"
            )
            raise EnvironmentUnavailable(what, where=error.where, hint=hint) from None
        if failed is not None:
            return failed
        note = f"{entry.package}: damaged in uv's cache ({entry.cause}): installed without the cache ({hint})"
        return msgspec.structs.replace(rest, notes=(*rest.notes, note))

    def _install(
        self, python: Path, requirements: Sequence[str], *options: str, sync: bool = True
    ) -> tuple[NotInstalled | None, str]:
        with scratch_folder() as folder:
            file = folder / "requirements.txt"
            file.write_text("\n".join(requirements) + "\n", encoding="utf-8")
            command = ("sync", "--allow-empty-requirements") if sync else ("install", "--no-deps", "--requirements")
            done = self.run_uv("pip", *command, str(file), "--python", str(python), *_LINKS, *options)
        output = output_of(done)
        return (None if done.returncode == 0 else self.failure(done, f"installing into {python.parent.parent}")), output


def yanked(output: str) -> tuple[str, ...]:
    """Return a line for each release that uv reports as yanked by its publisher."""
    found = re.findall(r"^warning: `(\S+?)==(\S+?)` is yanked(?: \(reason: \"?(.*?)\"?\))?$", output, re.MULTILINE)
    return tuple(
        f"{name} {version} is yanked by its publisher{f': {reason}' if reason else ''}"
        for name, version, reason in dict.fromkeys(found)
    )


def _of_package(requirements: Sequence[str], package: str) -> list[str]:
    name = canonicalize_name(package)
    return [line for line in requirements if canonicalize_name(Requirement(line).name) == name]


def _forget(python: Path, package: str) -> None:
    """Remove the metadata that a failed installation has left: uv could not uninstall by it."""
    for info in python.parent.parent.glob("lib/python*/site-packages/*.dist-info"):
        if canonicalize_name(info.name.partition("-")[0]) == canonicalize_name(package):
            shutil.rmtree(info)


def _is_version(version: str) -> bool:
    """Return True if an installer can read it: metadata may hold any text."""
    try:
        Version(version)
    except InvalidVersion:
        return False
    return True
