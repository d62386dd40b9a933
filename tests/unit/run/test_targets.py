"""Where a run happens, and what is said before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config.settings import Settings
from harness.config.variables import withheld
from harness.envs.installer import Installer
from harness.run.targets import open_target


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in withheld():
        monkeypatch.delenv(name)
    return Settings(environments=str(tmp_path), results=str(tmp_path / "results"), scenarios=str(tmp_path))


def notes(settings: Settings) -> list[str]:
    found: list[str] = []
    open_target(settings, Installer(environment={}), found.append)
    return found


def test_a_variable_that_measured_processes_do_not_get_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    assert notes(settings) == [
        "environment: measured processes do not get NCCL_ALGO; "
        "a program gets what its launch line sets: --program 'NAME=VALUE torchrun ...'"
    ]


def test_an_environment_without_such_variables_needs_no_line(settings: Settings) -> None:
    assert notes(settings) == []
