"""A real Ray cluster on this machine, and projects that run on it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.offline.project import Project
from tests.offline.waiting import killed_after
from tests.paths import ROOT

#: Longer than a command on a cluster takes on a busy machine, and than a cluster takes to start there.
LIMIT_S = 600.0


@dataclass(frozen=True)
class Nodes:
    """A cluster that runs."""

    address: str
    folder: Path
    process: subprocess.Popen[str]

    def ask(self, command: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._answer()

    def kill(self, number: int) -> None:
        """A node, with everything on it, at once."""
        assert self.ask(f"kill {number}") == {"killed": number}

    def used(self) -> dict[str, float]:
        """CPUs in use by address."""
        found: dict[str, float] = self.ask("used")["used"]
        return found

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        with killed_after(self.process, LIMIT_S):
            for line in self.process.stdout:
                with contextlib.suppress(ValueError):
                    answer = json.loads(line)
                    if isinstance(answer, dict):
                        return answer
        raise AssertionError(f"the cluster has ended: {(self.folder / 'log').read_text()[-2000:]}")


@contextlib.contextmanager
def running(folder: Path, user: Project, nodes: int = 2, cpus: int = 2) -> Iterator[Nodes]:
    """A cluster whose nodes are that user's."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed (pip install ray)")
    folder.mkdir(parents=True, exist_ok=True)
    for attempt in range(3):
        process = _start(folder, user, nodes, cpus)
        try:
            address = str(Nodes("", folder, process)._answer()["address"])
            break
        except AssertionError:  # Ray gives itself 30 s to start, which a busy machine may not have
            _end(process)
            if attempt == 2:
                raise
    try:
        yield Nodes(address, folder, process)
    finally:
        _end(process)


def _start(folder: Path, user: Project, nodes: int, cpus: int) -> subprocess.Popen[str]:
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.nodes", str(folder), str(nodes), str(cpus)],
            cwd=ROOT,
            # Ray keeps sockets in its temporary folder, and a socket's path has at most 107 characters.
            env={**user.variables, "RAY_TMPDIR": "/tmp"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def _end(process: subprocess.Popen[str]) -> None:
    """The end of its input is its end."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(60)
    process.stdout.close()


def configure(project: Project, cluster: Nodes, *versions: str, ray: str = "", **values: object) -> None:
    """As `Project.configure`, with the cluster's address and more of its settings."""
    text = f'[tool.dsregress.ray]\naddress = "{cluster.address}"\n{ray}'
    environments = str(project.folder / "environments")  # of the driver; the nodes have their own
    project.configure(*versions, text=text, **{"executor": "ray", "environments": environments, **values})  # type: ignore[arg-type]


def servers(project: Project) -> list[str]:
    """What runs in the nodes' environments: servers, and the cells and ranks that are forked from them."""
    return [command for command in project.processes() if "dsregress.probe.process.server" in command]
