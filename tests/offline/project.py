"""A user's project, with a folder as its only package index."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.packages import build
from tests.paths import ROOT

SCENARIOS = ROOT / "tests" / "packages" / "scenarios"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

#: Longer than any command of these tests takes on a busy machine; a command that hangs fails one test, not the whole job.
LIMIT_S = 300.0

#: Behaviour of a release -> its version; the good one is the oldest.
VERSION = {behaviour: version for version, behaviour in reversed(build.RELEASES.items())}
GOOD = VERSION["good"]

#: A release that only exists as a source whose build fails.
NOT_INSTALLING = "2.1.0"


def stack(version: str) -> str:
    """The id of a stack."""
    return f"py{PYTHON}-tinyframe{version}"


def cell(version: str, variant: str = "base") -> str:
    """The id of a cell."""
    return f"{stack(version)}/fit/{variant}/cpu"


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Report:
    """The JSON of ``regress --json``, and the command's result."""

    said: CommandResult
    json: dict[str, Any]

    @property
    def code(self) -> int:
        return self.said.code

    def cell(self, version: str, variant: str = "base") -> dict[str, Any]:
        (found,) = [c for c in self.json["cells"] if c["id"] == cell(version, variant)]
        return dict(found)

    def findings(self, version: str, **fields: str) -> list[dict[str, Any]]:
        """Findings of a stack whose fields have these values."""
        return [
            found
            for found in self.json["findings"]
            if found["stack"] == stack(version) and all(found[name] == value for name, value in fields.items())
        ]

    def finding(self, version: str, **fields: str) -> dict[str, Any]:
        (found,) = self.findings(version, **fields)
        return found


@dataclass(frozen=True)
class Project:
    """A folder with a pyproject.toml, and its user's environment variables."""

    folder: Path
    variables: dict[str, str]
    work: Path  #: environments, shared by the tests so that each one is built once
    limit_s: float = LIMIT_S  #: for one command
    program: tuple[str, ...] = (sys.executable, "-m", "dsregress")

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def results_files(self) -> list[str]:
        """Every run's files in the results folder, without the keys that depend on the machine."""
        files = [file.relative_to(self.results).as_posix() for file in self.results.rglob("*.json")]
        return sorted(re.sub(r"-[0-9a-f]{12}", "-KEY", file) for file in files)

    def configure(self, *versions: str, baseline: str = "", rounds: int = 0, text: str = "", **values: object) -> None:
        """Write the pyproject.toml; the first version is the baseline."""
        values = {
            "baseline": baseline or versions[0],
            "scenarios": str(SCENARIOS),
            "environments": str(self.work),
            "select": ["fit/base/cpu"],
            "rounds": rounds,
            "warmup_rounds": 1,
            "timeout_s": 20,
            **values,
        }
        lines = ["[tool.dsregress]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
        lines += ["[tool.dsregress.stack]", f"tinyframe = {json.dumps(versions)}"]
        # A thousand weights of eight bytes are what a release can get wrong here.
        lines += ["[tool.dsregress.thresholds]", "memory_bytes = 4096", text]
        (self.folder / "pyproject.toml").write_text("\n".join(lines))

    @contextlib.contextmanager
    def started(self, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        """The command, started in a new process session, as a terminal does. At the end of the block it is killed."""
        process = subprocess.Popen(
            [*self.program, *arguments],
            cwd=self.folder,
            env={**self.variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate(timeout=self.limit_s)

    def run(self, *arguments: str, **variables: str) -> CommandResult:
        """Run the command and wait until it ends."""
        with self.started(*arguments, **variables) as process:
            out, err = process.communicate(timeout=self.limit_s)
        return CommandResult(process.returncode, out, err)

    def regress(self, *arguments: str, **variables: str) -> Report:
        """Run ``regress`` and read its JSON."""
        file = self.folder / "report.json"
        file.unlink(missing_ok=True)
        said = self.run("regress", *arguments, "--json", str(file), **variables)
        assert file.exists(), said.err
        return Report(said, json.loads(file.read_bytes()))

    def running(self) -> list[tuple[int, str]]:
        """Pid and command line of every process that runs in one of this user's environments or in this project: none may
        be left once a command has ended."""
        found = []
        places = (str(self.work), str(self.folder))
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
                folder = os.readlink(process / "cwd")
                state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue  # it has ended meanwhile
            if state != "Z" and (str(self.work) in command or folder.startswith(places)):
                found.append((int(process.name), command))
        return found

    def processes(self) -> list[str]:
        """Their command lines."""
        return [command for _, command in self.running()]


def without_times(report: dict[str, Any]) -> Any:
    """The cells of a report without what differs from run to run: times and session."""
    timed = re.compile(r"(^|\.)(step_time_s|step_processor_s|init_s|import_s|seconds)$|_time_")
    return [
        {
            **{name: value for name, value in found.items() if name not in ("session", "rounds_s")},
            "metrics": {name: value for name, value in found["metrics"].items() if not timed.search(name)},
        }
        for found in report["cells"]
    ]


def stored(project: Project) -> list[dict[str, Any]]:
    """Every result on disk."""
    files = [file for file in sorted(project.results.rglob("*.json")) if not file.name.endswith(".benchmark.json")]
    return [msgspec.json.decode(file.read_bytes()) for file in files]
