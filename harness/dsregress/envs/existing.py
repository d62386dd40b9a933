"""An existing interpreter (conda, a container, a cluster module, a virtual environment) as an environment.

Nothing is installed into it. Packages that the probe needs and it lacks (pytest, pytest-benchmark and their requirements)
are in a separate folder that is added to the measured process's path:

<folder>/beside/py3.11-<hash>/       only distributions that the interpreter does not have, so that none of its is shadowed

Its stack has its own versions, and ``python`` is ``3.11+1a2b3c4d``: the hash is that of all that is installed in it, by the
wheels' own records, and of the measured code as it is now. So two interpreters are one stack exactly if they hold the same,
wherever they are; a package that is added, or edited, makes another stack; and none is confused with a stack that was built
here from a lock. No path is part of it, as results are published.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from dsregress.envs import inside, interpreter
from dsregress.envs.installer import Installer
from dsregress.errors import EnvironmentUnavailable, UsageError
from dsregress.model import AXES, Environment, NotInstalled, Stack
from dsregress.system import kept
from dsregress.system.files import new_folder
from dsregress.system.locks import held
from dsregress.system.obstacles import obstacle_error
from dsregress.system.scratch_folders import scratch_folder

#: The oldest Python that the probe runs in.
OLDEST = (3, 10)

#: Reading the metadata and the code of a large environment from a network file system takes a minute.
_DESCRIPTION_LIMIT_S = 180.0
_VERSION_LIMIT_S = 30.0

_WHERE = "--python"
_HINT = "give the path of an environment's interpreter, as /opt/conda/envs/a/bin/python"

#: Names of virtual environments' folders that are not descriptive.
_NAMELESS = frozenset((".venv", "venv", ".env", "env", ".v", ".virtualenv"))


class _Description(msgspec.Struct, frozen=True):
    """The result of `dsregress.envs.interpreter.description`."""

    python: tuple[int, int]
    prefix: str
    installed: dict[str, str]
    demands: dict[str, list[str]]
    wheels: str
    code: str

    @property
    def versions(self) -> dict[str, str]:
        """Distribution -> version, by the names that `inside.normal` gives."""
        return {inside.normal(name): version for name, version in self.installed.items()}


class ProbeNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """Packages without which an interpreter cannot be measured."""

    package: str  #: that it must have itself; empty: none
    tools: Sequence[str]  #: the requirements of the probe, which can lie beside it
    pins: str  #: the preferred versions of those


def read_interpreter(
    path: str,
    *,
    named: Collection[str],
    needs: ProbeNeeds,
    variables: Mapping[str, str],
    folder: Path,
    installer: Installer,
) -> Environment:
    """Return the environment of the interpreter ``path``, or of the environment in the folder ``path``.

    ``named`` are the packages whose versions its stack names, if it has them. ``variables`` is the environment of measured
    processes.

    Raise UsageError if the interpreter cannot be measured, EnvironmentUnavailable if the probe's own packages cannot be
    obtained.
    """
    program = _interpreter_program(path)
    _check_interpreter(program, path, variables)
    packages = sorted({*AXES, *named})
    found = _describe_interpreter(program, path, packages, variables)
    present = found.versions
    if needs.package and inside.normal(needs.package) not in present:
        hint = "measured processes see no PYTHONPATH and no user's own site-packages: install it into the environment"
        raise UsageError(f"{path} has no {needs.package}", where=_WHERE, hint=hint)
    label, minor = _interpreter_label(found.prefix), f"{found.python[0]}.{found.python[1]}"
    versions = {
        name: _as_named(name, present[inside.normal(name)]) for name in packages if inside.normal(name) in present
    }
    content = _hash(found.wheels, found.code)
    beside = _packages_beside(program, path, minor, found, needs, folder, installer)
    return Environment(
        stack=Stack(python=f"{minor}+{content[:8]}", versions=versions, label=label),
        lock_sha256=found.wheels,
        python=program,
        installed={**(inside.installed(Path(beside)) if beside else {}), **found.installed},
        demands=found.demands,
        code_sha256=found.code,
        beside=beside,
    )


def installed_versions(path: str, variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return distribution -> version of the interpreter ``path``, or of the environment in the folder ``path``. Raise
    UsageError."""
    program = _interpreter_program(path)
    _check_interpreter(program, path, variables)
    return _describe_interpreter(program, path, (), variables).versions


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _interpreter_program(path: str) -> str:
    """Return the absolute path of the program. Links are kept: a virtual environment's interpreter is one."""
    given = os.path.expanduser(path)
    if "/" not in given:
        given = shutil.which(given) or given
    if os.path.isdir(given):
        given = os.path.join(given, "bin", "python")
        if not os.path.exists(given):
            raise UsageError(f"{path} is a folder without bin/python", where=_WHERE, hint=_HINT)
    program = os.path.abspath(given)
    if not os.path.exists(program):
        raise UsageError(f"{path} does not exist", where=_WHERE, hint=_HINT)
    if not os.path.isfile(program) or not os.access(program, os.X_OK):
        raise UsageError(f"{path} cannot be executed", where=_WHERE, hint=_HINT)
    return program


def _check_interpreter(program: str, path: str, variables: Mapping[str, str]) -> None:
    """Raise UsageError if the program is not Python, or too old. It may be any program, so it is run with nothing but
    ``--version`` before that is known."""
    done = _run_interpreter([program, "--version"], path, variables, _VERSION_LIMIT_S)
    said = re.match(r"Python (\d+)\.(\d+)", (done.stdout or done.stderr).decode("utf-8", "replace").strip())
    if said is None:
        raise UsageError(f"{path} is not a Python interpreter", where=_WHERE, hint=_HINT)
    version = (int(said[1]), int(said[2]))
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UsageError(
            f"{path} is Python {said[1]}.{said[2]}, but the probe needs {oldest} or newer", where=_WHERE, hint=_HINT
        )


def _describe_interpreter(
    program: str, path: str, packages: Sequence[str], variables: Mapping[str, str]
) -> _Description:
    text = Path(interpreter.__file__).read_text(encoding="utf-8")
    done = _run_interpreter([program, "-c", text, inside.__file__, *packages], path, variables, _DESCRIPTION_LIMIT_S)
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    try:
        return msgspec.json.decode(lines[-1] if lines else "", type=_Description)
    except (msgspec.DecodeError, UnicodeError):
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        why = last[0][:200] if last else f"exit code {done.returncode}"
        hint = "check that it works: PATH -c 'import importlib.metadata'"
        raise UsageError(f"{path} cannot list its installed packages: {why}", where=_WHERE, hint=hint) from None


def _run_interpreter(
    command: Sequence[str], path: str, variables: Mapping[str, str], limit_s: float
) -> subprocess.CompletedProcess[bytes]:
    with scratch_folder() as folder:
        environment = {**variables, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            return kept.run_kept(command, folder=str(folder), environment=environment, timeout_s=limit_s)
        except OSError as error:
            raise UsageError(f"{path} cannot be started: {error.strerror}", where=_WHERE, hint=_HINT) from None
        except subprocess.TimeoutExpired:
            hint = "check what blocks it: PATH --version"
            raise UsageError(f"{path} did not respond within {limit_s:.0f} s", where=_WHERE, hint=hint) from None


def _as_named(name: str, version: str) -> str:
    """Return a version as stacks and file names have it. torch's builds (``+cu121``) are one version."""
    if name == "torch":
        version = re.sub(r"\+(cpu|cu\d+|rocm[\d.]+|xpu)$", "", version)
    return re.sub(r"[^A-Za-z0-9.+!_]", "_", version)


def _interpreter_label(prefix: str) -> str:
    """Return the environment's name: the last folder of its path that is descriptive, and never a user's."""
    if prefix in ("/", "/usr", "/usr/local"):
        return "system"
    folder = Path(prefix)
    name = folder.name
    if name in _NAMELESS and folder.parent != Path.home() and folder.parent.parent != Path("/home"):
        name = folder.parent.name or name
    return re.sub(r"[^\w.+-]", "_", name)


def _packages_beside(
    program: str,
    path: str,
    minor: str,
    found: _Description,
    needs: ProbeNeeds,
    folder: Path,
    installer: Installer,
) -> str:
    """Return the folder of the packages that the probe needs and the interpreter lacks; empty if it lacks none."""
    present = found.versions
    missing = []
    for line in needs.tools:
        requirement = Requirement(line)
        version = present.get(inside.normal(requirement.name))
        if version is None:
            missing.append(line)
        elif not _satisfies(version, requirement.specifier):
            what = f"{path} has {requirement.name} {version}, but the probe needs {requirement.specifier}"
            raise UsageError(
                what, where=_WHERE, hint="upgrade it in that environment; existing packages are never replaced"
            )
    if not missing:
        return ""
    place = folder / "beside" / f"py{minor}-{_hash(found.wheels, needs.pins, *needs.tools)[:12]}"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with held(place.with_name(f"{place.name}.lock"), lambda: None):
            if not place.is_dir():
                with new_folder(place) as unfinished:
                    failed = installer.install_beside(
                        Path(program), missing, there=found.installed, preferred=needs.pins, target=unfinished
                    )
                    if isinstance(failed, NotInstalled):
                        hint = f"install {' and '.join(missing)} into it"
                        raise EnvironmentUnavailable(
                            f"the probe's requirements conflict with the packages in {path}: {failed.signature}",
                            where=_WHERE,
                            hint=hint,
                        )
    except OSError as error:
        hint = "free space, or set DSREGRESS_ENVIRONMENTS to a writable folder"
        raise obstacle_error(EnvironmentUnavailable, "cannot be written", error, where=place, hint=hint) from None
    return str(place)


def _satisfies(version: str, specifier: SpecifierSet) -> bool:
    try:
        return specifier.contains(version, prereleases=True)
    except ValueError:
        return True
