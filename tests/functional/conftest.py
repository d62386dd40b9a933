"""Real releases of DeepSpeed, built and run by the real command.

Environments are kept where `regress` keeps its own (``DSREGRESS_ENVIRONMENTS``, else ``.dsregress``), so that each is
built once for both; results go to a folder of the test session.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import ending
from tests.functional.releases import BEFORE, ENVIRONMENTS, LIMIT_S, RELEASES, Regress
from tests.paths import ROOT


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.functional)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all results of the session."""
    return tmp_path_factory.mktemp("functional") / "results"


@pytest.fixture(scope="session")
def harness(results: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command of the harness; skips where there is no index to take the releases from."""

    def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        done = ending.run(
            [sys.executable, "-m", "dsregress", *arguments],
            cwd=cwd,
            env={**os.environ, "DSREGRESS_RESULTS": str(results), "DSREGRESS_ENVIRONMENTS": ENVIRONMENTS},
            limit_s=LIMIT_S,
        )
        if done.returncode == 3 and "no package index can be reached" in done.stderr:
            pytest.skip(f"no package index can be reached: {done.stderr.strip()}")
        return done

    return run


@pytest.fixture(scope="session")
def regress(
    harness: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> Regress:
    """Runs ``regress`` with these options and returns its JSON."""
    folder = tmp_path_factory.mktemp("reports")

    def run(*arguments: str, cwd: Path = ROOT) -> dict[str, Any]:
        file = folder / f"{len(list(folder.iterdir()))}.json"
        done = harness("regress", *arguments, "--json", str(file), cwd=cwd)
        assert file.exists(), done.stderr
        report: dict[str, Any] = {**json.loads(file.read_bytes()), "exit_code_seen": done.returncode}
        return report

    return run


@pytest.fixture(scope="session")
def python_of(harness: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., str]:
    """The interpreter of a release's environment, built with these options of ``env``."""

    def of(version: str, *options: str) -> str:
        done = harness("env", version, *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return of


@pytest.fixture(scope="session")
def checkpointing(regress: Regress) -> dict[str, Any]:
    """The three ways of gradient checkpointing, on all three releases."""
    releases = ",".join(RELEASES)
    return regress(
        *("--deepspeed", releases, "--baseline", BEFORE, "--device", "cpu", "--rounds", "2"),
        *("--scenario", "llama_zero3_backward", "--variant", "gradient_checkpointing=*"),
    )
