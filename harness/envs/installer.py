"""uv, or pip where there is no uv, run under the user's own pip configuration.

All commands run in an empty working folder, as uv would otherwise obey the pyproject.toml of whatever project it is in.
"""

from __future__ import annotations

import functools
import json
import platform
import re
import shutil
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urljoin

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from harness.envs import signatures
from harness.envs.pip_config import PipConfig
from harness.envs.pip_config import read as read_pip_config
from harness.envs.recipe import BUILT_FOR_CPU, built_for_cpu
from harness.errors import EnvironmentUnavailable, Offline, UsageError
from harness.model import NotInstalled
from harness.system import kept
from harness.system.scratch import scratch_folder

#: Where PyTorch publishes its CPU builds, for when the user's own indexes have none.
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu/"

_INDEX_ANSWER_S = 5.0  # an index that does not answer in this time counts as out of reach
_COMMAND_S = 1800.0

#: How uv takes files from its cache, whatever the user's UV_LINK_MODE: `harness.envs.apart` copies what it must.
_LINKS = ("--link-mode", "hardlink")


class Installer:
    """Runs package commands. ``uv`` is the path of its program; empty for pip."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        pip: PipConfig | None = None,
        uv: str | None = None,
        offline: bool = False,
    ) -> None:
        self.environment = dict(environment)
        self._pip = pip
        self.uv = _find_uv(self.environment) if uv is None else uv
        self.offline = offline
        # DeepSpeed's setup would otherwise compile operators that no scenario uses, or fail for want of a compiler.
        self.environment.setdefault("DS_BUILD_OPS", "0")
        if self.uv:
            self.environment.setdefault("UV_NO_PROGRESS", "1")
            # Fail early if out of reach, be patient if slow.
            self.environment.setdefault("UV_HTTP_CONNECT_TIMEOUT", "10")
            self.environment.setdefault("NO_COLOR", "1")

    @functools.cached_property
    def pip(self) -> PipConfig:
        """The user's pip configuration; read (half a second) when the first command needs it."""
        return read_pip_config(environment=self.environment) if self._pip is None else self._pip

    def compile(self, source: Path, output: Path, python: str, overrides: Path | None = None) -> NotInstalled | None:
        """Resolve ``source`` for every Python from ``python`` on; pins that ``output`` holds are kept where they can be, and
        requirements in ``overrides`` whatever else demands."""
        if not self.uv:
            hint = "install uv (pip install uv), or use a stack whose lock is committed"
            raise EnvironmentUnavailable("resolving a new stack needs uv", where="versions", hint=hint)
        # Our own interpreter reads the packages' metadata; uv would otherwise look for, or download, one of ``python``.
        options = ["--universal", "--python-version", python, "--python", sys.executable]
        options += ["--no-header", "--no-annotate", "--quiet"]
        options += ["--override", str(overrides)] if overrides is not None else []
        done = self._uv("pip", "compile", *options, str(source), "--output-file", str(output))
        return None if done.returncode == 0 else self._classify(done, "resolving a stack")

    def published(self, package: str, python: str = "") -> tuple[str, ...]:
        """All releases that the user's indexes list, pre-releases and builds (``+cpu``) as well; none that is yanked.

        For the running Python, or for ``python`` ("3.12"). Of ``name==version`` that release, be it yanked, if there is one.

        Raises UsageError where the indexes do not know the package, its subclass Offline where none may be used, and
        EnvironmentUnavailable where none answers.
        """
        if "==" in package:
            return (package.partition("==")[2],) if self._has(package) else ()
        return _published(self, package, python)

    def cpu_builds(self, requirements: Sequence[str], python: str) -> dict[str, str]:
        """The requirements that yield CPU builds of torch, and of what goes with it, at the versions that a lock pins; by
        package, as far as they can be had."""
        found = {name: self._cpu_build(name, version, python) for name, version in built_for_cpu(requirements).items()}
        return {name: requirement for name, requirement in found.items() if requirement is not None}

    def _cpu_build(self, package: str, version: str, python: str) -> str | None:
        build = f"{package}=={version}+cpu"
        if self.uv:  # a tenth of the time of reading pip's list of all releases
            if self._resolve(build, "--python-version", python).returncode == 0:
                return build
        else:
            try:
                if f"{version}+cpu" in self.published(package, python):
                    return build
            except (UsageError, EnvironmentUnavailable):
                pass
        if self.offline or self.pip.no_index:
            return None
        url = _pytorch_wheel(package, version, python, self.pip.cert)
        return f"{package} @ {url}" if url else None

    def create(self, folder: Path, python: str) -> NotInstalled | None:
        """An empty virtual environment of Python ``python`` ("3.11") in ``folder``."""
        ours = f"{sys.version_info.major}.{sys.version_info.minor}"
        if self.uv:
            done = self._uv(
                "venv", "--quiet", "--no-project", "--python", sys.executable if python == ours else python, str(folder)
            )
        else:
            program = (
                sys.executable if python == ours else shutil.which(f"python{python}", path=self.environment.get("PATH"))
            )
            if program is None:
                hint = f"install Python {python}, or uv, which brings its own"
                raise EnvironmentUnavailable(f"no python{python} can be found", where=str(folder), hint=hint)
            done = self._run([program, "-m", "venv", str(folder)])
            if done.returncode != 0:  # Debian's Python comes without ensurepip
                done = self._run([sys.executable, "-m", "virtualenv", "--quiet", "--python", program, str(folder)])
        return None if done.returncode == 0 else self._classify(done, str(folder))

    def install(self, python: Path, requirements: Sequence[str]) -> NotInstalled | tuple[str, ...]:
        """Make the environment of the interpreter ``python`` hold exactly ``requirements``, which are complete.

        Returns a line for each of them that its publisher has yanked.
        """
        failed, output = self._install(python, requirements)
        if failed is None:
            return yanked(output)
        package = signatures.failed_build(output)
        if not package:
            return failed
        # Some releases' setup imports torch, which an isolated build does not have: build it in the environment itself.
        late = [line for line in requirements if re.match(rf"{re.escape(package)}\b(?!-)", line, re.IGNORECASE)]
        rest, output = self._install(python, [line for line in requirements if line not in late])
        if rest is not None:
            return rest
        again, more = self._install(python, late, "--no-build-isolation", sync=False)
        return failed if again is not None else yanked(f"{output}\n{more}")

    def install_anew(self, python: Path, requirements: Sequence[str]) -> NotInstalled | None:
        """Install ``requirements`` again over what is there, from the index and not from a cache."""
        options = ("--no-cache", "--reinstall") if self.uv else ("--no-cache-dir", "--force-reinstall")
        failed, _ = self._install(python, requirements, *options, sync=False)
        return failed

    def install_source(self, python: Path, folder: Path) -> NotInstalled | None:
        """Add what the source in ``folder`` builds to an environment that has all that it requires.

        First with the environment's own build tools, which need no index and can import torch, as some setups demand; then,
        for a build backend that is not among them, isolated as pip would.
        """
        first: NotInstalled | None = None
        for options in (("--no-build-isolation",), ()):
            if self.uv:
                command = ("pip", "install", "--no-deps", *_LINKS, *options, str(folder), "--python", str(python))
                done = self._uv(*command)
            else:
                pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--no-input"]
                done = self._run([*pip, *options, str(folder)])
            if done.returncode == 0:
                return None
            if first is None:
                first = signatures.build_failure(_output(done), folder.name)
        return first

    def install_beside(
        self, python: Path, requirements: Sequence[str], *, there: Mapping[str, str], preferred: str, target: Path
    ) -> NotInstalled | None:
        """Put ``requirements`` into the folder ``target``, for the interpreter ``python``, whose environment stays as it
        is: with all that they require, without what is ``there`` (distribution -> version) already.

        ``preferred`` is a lock whose versions are taken where they can be.
        """
        if not self.uv:
            hint = f"install uv (pip install uv), or {' and '.join(requirements)} into that environment"
            raise EnvironmentUnavailable(
                "putting packages beside an interpreter needs uv", where=str(python), hint=hint
            )
        with scratch_folder() as folder:
            source, constraints, output = (folder / name for name in ("in.txt", "there.txt", "out.txt"))
            source.write_text("\n".join(requirements) + "\n", encoding="utf-8")
            fixed = [f"{name}=={version}\n" for name, version in there.items() if _is_version(version)]
            constraints.write_text("".join(fixed), encoding="utf-8")
            output.write_text(preferred, encoding="utf-8")
            options = ["--python", str(python), "--no-header", "--no-annotate", "--quiet"]
            options += ["--constraint", str(constraints), "--output-file", str(output)]
            done = self._uv("pip", "compile", *options, str(source))
            if done.returncode != 0:
                return self._classify(done, "what the probe needs")
            lines = [line for line in output.read_text(encoding="utf-8").splitlines() if "==" in line]
            names = {canonicalize_name(name) for name in there}
            missing = [line for line in lines if canonicalize_name(line.partition("==")[0]) not in names]
            source.write_text("\n".join(missing) + "\n", encoding="utf-8")
            options = ["--python", str(python), "--target", str(target), "--no-deps", "--quiet"]
            options += ["--link-mode", "copy"]  # what is measured can write to it, and must not reach the cache
            done = self._uv("pip", "install", *options, "--requirements", str(source))
        return None if done.returncode == 0 else self._classify(done, "what the probe needs")

    def _has(self, requirement: str) -> bool:
        """Whether an index has a release; False without uv."""
        if not self.uv:
            return False
        done = self._resolve(requirement, "--universal")
        if done.returncode == 0:
            return True
        if self.offline:  # then it is not in uv's cache
            return False
        self._classify(done, "package index")
        return not re.search(r"there is no version of|was not found", " ".join(_output(done).split()))

    def _resolve(self, requirement: str, *options: str) -> subprocess.CompletedProcess[str]:
        """What uv says of a requirement alone. Downloads and builds nothing."""
        with scratch_folder() as folder:
            file = folder / "requirements.txt"
            file.write_text(f"{requirement}\n", encoding="utf-8")
            common = ["--no-deps", "--no-build", "--python", sys.executable, "--quiet"]
            return self._uv("pip", "compile", *common, *options, str(file))

    def _install(
        self, python: Path, requirements: Sequence[str], *options: str, sync: bool = True
    ) -> tuple[NotInstalled | None, str]:
        with scratch_folder() as folder:
            file = folder / "requirements.txt"
            file.write_text("\n".join(requirements) + "\n", encoding="utf-8")
            if self.uv:
                command = ("sync",) if sync else ("install", "--no-deps", "--requirements")
                done = self._uv("pip", *command, str(file), "--python", str(python), *_LINKS, *options)
            else:
                pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--no-input"]
                pip.append("--no-compile")  # as uv: Python compiles what is imported
                done = self._run([*pip, *options, "--requirement", str(file)])
        if done.returncode == 0:
            return None, _output(done)
        return self._classify(done, f"installing into {python.parent.parent}"), _output(done)

    def _classify(self, done: subprocess.CompletedProcess[str], where: str) -> NotInstalled:
        output = _output(done)
        if done.returncode < 0:  # whatever it was about to say
            ended = f"the installer was killed by signal {-done.returncode}"
            raise EnvironmentUnavailable(ended, where=where, hint="find out what ended it (dmesg), and run this again")
        if self.offline and "No solution found" in output:  # says nothing about the stack: no index was consulted
            hint = "run once without DSREGRESS_OFFLINE"
            raise EnvironmentUnavailable("offline, and not all packages are in uv's cache", where=where, hint=hint)
        return signatures.classify(output, where)

    def _uv(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        assert self.uv
        options = self.pip.uv_options() if arguments[0] == "pip" else []
        variables = {**self.environment, **self.pip.uv_environment(self.environment)}
        return self._run([self.uv, *arguments, *options, *(["--offline"] if self.offline else [])], variables)

    def _run(
        self, command: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = self.environment if variables is None else variables
        with scratch_folder() as folder:
            try:
                done = kept.run(command, folder=str(folder), environment=environment, timeout_s=_COMMAND_S)
            except OSError as error:
                program = command[0]
                hint = f"see whether it works: {program} --version"
                hint = "install it again (pip install uv)" if program == self.uv else hint
                raise EnvironmentUnavailable(f"cannot be started: {error.strerror}", where=program, hint=hint) from None
            except subprocess.TimeoutExpired:
                hint = "check the network and the index"
                raise EnvironmentUnavailable(
                    f"did not end in {_COMMAND_S:.0f} s", where=command[0], hint=hint
                ) from None
        out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(command, done.returncode, out, err)


@functools.lru_cache(maxsize=64)
def _published(installer: Installer, package: str, python: str) -> tuple[str, ...]:
    if installer.offline:
        hint = "run once without DSREGRESS_OFFLINE"
        raise Offline(f"offline: cannot look up releases of {package}", where="package index", hint=hint)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions", package, "--pre"]
    command += ["--retries", "1", "--timeout", "15", *(["--python-version", python] if python else [])]
    done = installer._run([*command, "--json"])
    if "no such option" in done.stderr:  # pip < 25.1 prints prose
        done = installer._run(command)
    if done.returncode == 0:
        return _versions(done.stdout)
    if re.search(r"No matching distribution", done.stderr) and not re.search(r"(?i)retrying|connection", done.stderr):
        raise UsageError(
            f"no index knows {package!r}", where="package index", hint="check the name and pip config list"
        )
    hint = "check the network and pip config list; releases that the harness knows need no index"
    raise EnvironmentUnavailable(f"no index answers for {package}", where="package index", hint=hint)


def _is_version(version: str) -> bool:
    """Whether an installer can read it: metadata may hold any text."""
    try:
        Version(version)
    except InvalidVersion:
        return False
    return True


def yanked(output: str) -> tuple[str, ...]:
    """A line for each release of which uv or pip says that its publisher has yanked it."""
    by_uv = re.findall(r"^warning: `(\S+?)==(\S+?)` is yanked(?: \(reason: \"?(.*?)\"?\))?$", output, re.MULTILINE)
    by_pip = re.findall(
        r"yanked version: '(\S+?)' candidate \(version (\S+).*(?:\nReason for being yanked: (.*))?", output
    )
    return tuple(
        f"{name} {version} is yanked by its publisher{f': {reason}' if reason not in ('', '<none given>') else ''}"
        for name, version, reason in dict.fromkeys((*by_uv, *by_pip))
    )


def _versions(text: str) -> tuple[str, ...]:
    """The releases in the output of ``pip index versions``, as JSON or as prose."""
    if text.lstrip().startswith("{"):
        return tuple(json.loads(text)["versions"])
    found = re.search(r"^Available versions: (.*)$", text, re.MULTILINE)
    return tuple(part.strip() for part in found[1].split(",")) if found else ()


@functools.lru_cache(maxsize=len(BUILT_FOR_CPU))
def _pytorch_page(package: str, cert: str) -> str:
    try:
        context = ssl.create_default_context(cafile=cert or None)
        with urllib.request.urlopen(
            f"{PYTORCH_CPU_INDEX}{package}/", timeout=_INDEX_ANSWER_S, context=context
        ) as answer:
            page: str = answer.read().decode("utf-8", "replace")
            return page
    except (OSError, ValueError):  # URLError, timeouts and certificate errors are OSErrors
        return ""


def _pytorch_wheel(package: str, version: str, python: str, cert: str) -> str | None:
    """URL of PyTorch's own CPU wheel for this Python on x86-64 or Arm Linux."""
    return find_wheel(_pytorch_page(package, cert), package, version, python)


def find_wheel(page: str, package: str, version: str, python: str) -> str | None:
    """The link in an index page to the CPU wheel of a release for ``python`` ("3.11") on this machine's CPU."""
    tag = f"cp{python.replace('.', '')}"
    machine = platform.machine()
    for link in re.findall(r'href="([^"]+)"', page):
        url = unescape(link)
        name = unquote(url.partition("#")[0].rpartition("/")[2])
        if (
            name.startswith(f"{package}-{version}+cpu-{tag}-{tag}-")
            and "linux" in name
            and name.endswith(f"_{machine}.whl")
        ):
            return urljoin(f"{PYTORCH_CPU_INDEX}{package}/", url)
    return None


def _find_uv(environment: Mapping[str, str]) -> str:
    """The uv that is installed beside us, else the one on PATH, else none."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return shutil.which("uv", path=environment.get("PATH")) or ""


def _output(done: subprocess.CompletedProcess[str]) -> str:
    return f"{done.stdout}\n{done.stderr}".strip()
