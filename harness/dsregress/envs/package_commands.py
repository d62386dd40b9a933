"""Runs uv under the user's own pip configuration, and pip for what uv lacks: that configuration, and lists of releases.

All commands run in an empty working folder, since uv would otherwise obey the pyproject.toml of the project it is in.
"""

from __future__ import annotations

import datetime
import functools
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from dsregress.envs import signatures
from dsregress.envs.pip_config import PipConfig, read_pip_config
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import NotInstalled
from dsregress.system import kept
from dsregress.system.scratch_folders import scratch_folder

_COMMAND_S = 1800.0

#: What a setup script says under setuptools 82 and later, uv's variable that constrains what sources are built with, and the
#: constraint for them.
_LACKS_PKG_RESOURCES = "No module named 'pkg_resources'"
_CONSTRAINT = "UV_BUILD_CONSTRAINT"
_WITH_PKG_RESOURCES = Path(__file__).with_name("build_constraints.txt")


class PackageCommands:
    """Runs package commands. ``uv`` is the path of its program, ``as_of`` the last day whose releases are known."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        pip: PipConfig | None = None,
        uv: str | None = None,
        offline: bool = False,
        as_of: str = "",
    ) -> None:
        self.environment = dict(environment)
        self._pip = pip
        self.uv = _find_uv(self.environment) if uv is None else uv
        self.offline = offline
        self.as_of = as_of
        # DeepSpeed's setup would otherwise compile operators that no scenario uses, or fail for want of a compiler.
        self.environment.setdefault("DS_BUILD_OPS", "0")
        self.environment.setdefault("UV_NO_PROGRESS", "1")
        # Fail early if out of reach, be patient if slow.
        self.environment.setdefault("UV_HTTP_CONNECT_TIMEOUT", "10")
        self.environment.setdefault("NO_COLOR", "1")

    @functools.cached_property
    def pip(self) -> PipConfig:
        """The user's pip configuration; read (half a second) when the first command needs it."""
        return read_pip_config(environment=self.environment) if self._pip is None else self._pip

    @functools.cached_property
    def cache_folder(self) -> Path:
        """The folder of uv's cache."""
        return Path(self.run_uv("cache", "dir").stdout.strip())

    def run_uv(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run uv; ``variables`` take precedence over those of the user and of pip's configuration. Where a source that it
        builds needs pkg_resources, it runs once more with a setuptools that has it.

        Raise EnvironmentUnavailable if it cannot be started or does not end.
        """
        options = self.pip.uv_options() if arguments[0] == "pip" else []
        environment = {**self.environment, **self.pip.uv_environment(self.environment), **variables}
        command = [self.uv, *arguments, *options, *(["--offline"] if self.offline else [])]
        done = self._run(command, environment)
        if done.returncode and _LACKS_PKG_RESOURCES in done.stderr and _CONSTRAINT not in environment:
            done = self._run(command, {**environment, _CONSTRAINT: str(_WITH_PKG_RESOURCES)})
        return done

    @property
    def known_until(self) -> str:
        """Return the moment after which releases are unknown, as uv and pip read it; empty if all are known."""
        if not self.as_of:
            return ""
        next_day = datetime.date.fromisoformat(self.as_of) + datetime.timedelta(days=1)
        return f"{next_day.isoformat()}T00:00:00Z"

    @property
    def exclude_newer(self) -> dict[str, str]:
        """Return the variables of uv that exclude later releases from a resolution."""
        return {"UV_EXCLUDE_NEWER": self.known_until} if self.as_of else {}

    def run_pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the pip of our own interpreter. Raise EnvironmentUnavailable as `run_uv` does."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        return self._run([*pip, *arguments], self.environment)

    def resolve_alone(self, requirements: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Resolve requirements, one a line, with uv, without their dependencies. Download and build nothing, releases that
        are only a source included."""
        names = [Requirement(line).name for line in requirements.splitlines()]
        with scratch_folder() as folder:
            file = folder / "requirements.txt"
            file.write_text(f"{requirements}\n", encoding="utf-8")
            # Without this, uv builds a source to learn what it requires.
            known = (f'[[dependency-metadata]]\nname = "{name}"\nrequires-dist = []\n' for name in names)
            (folder / "uv.toml").write_text("".join(known), encoding="utf-8")
            common = ["--directory", str(folder), "--no-deps", "--no-header", "--python", sys.executable, "--quiet"]
            return self.run_uv("pip", "compile", *common, *options, str(file), **variables)

    def failure(self, done: subprocess.CompletedProcess[str], where: str) -> NotInstalled:
        """Return the failure that a command reports. Raise EnvironmentUnavailable if the machine is at fault."""
        output = output_of(done)
        if done.returncode < 0:  # whatever it was about to say
            ended = f"the installer was killed by signal {-done.returncode}"
            raise EnvironmentUnavailable(
                ended, where=where, hint="find out what killed it (dmesg), then run the command again"
            )
        if self.offline and "No solution found" in output:  # says nothing about the stack: no index was consulted
            hint = "run once without DSREGRESS_OFFLINE"
            raise EnvironmentUnavailable("offline, and uv's cache lacks some packages", where=where, hint=hint)
        failed = signatures.classify(output, where)
        for package in signatures.missing_releases(output):
            self._check_that_indexes_list(package, where)
        return failed

    def _check_that_indexes_list(self, package: str, where: str) -> None:
        """Raise EnvironmentUnavailable if an index answers for a package but lists no file of it, as a network's login page
        does for every address."""
        output = output_of(self.resolve_alone(package, "--universal", "--prerelease", "allow"))
        if signatures.lists_nothing(output, package):
            what = f"an index returned a page that lists no files of {package}"
            hint = "open the index in a browser: a network login page may be answering instead (see pip config list)"
            raise EnvironmentUnavailable(what, where=where, hint=hint)

    def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        with scratch_folder() as folder:
            try:
                done = kept.run_kept(command, folder=str(folder), environment=environment, timeout_s=_COMMAND_S)
            except OSError as error:
                hint = "install it again (pip install uv)"
                raise EnvironmentUnavailable(
                    f"cannot be started: {error.strerror}", where=command[0] or "uv", hint=hint
                ) from None
            except subprocess.TimeoutExpired:
                hint = "check the network and the index"
                raise EnvironmentUnavailable(
                    f"did not end in {_COMMAND_S:.0f} s", where=command[0], hint=hint
                ) from None
        out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(command, done.returncode, out, err)


def output_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return the whole output of a command."""
    return f"{done.stdout}\n{done.stderr}".strip()


def _find_uv(environment: Mapping[str, str]) -> str:
    """Return the uv installed with our interpreter, else the one on PATH, else ``uv``, which cannot be started."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return shutil.which("uv", path=environment.get("PATH")) or "uv"
