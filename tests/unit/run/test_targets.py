"""Where a run happens, and what is said before it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from dsregress.config.settings import Settings
from dsregress.config.variables import withheld
from dsregress.envs import hardware
from dsregress.envs.installer import Installer
from dsregress.envs.recipe import CpuBuilds
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import LockedStack, Stack
from dsregress.run.targets import open_target


class Usage(NamedTuple):
    """What `shutil.disk_usage` returns, as far as it is read."""

    free: int


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


def test_environments_that_do_not_fit_on_the_disk_are_announced_and_not_begun(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"torch": "2.13.0", "deepspeed": "0.16.4"}
    pins = ("deepspeed==0.16.4", "numpy==2.4.6", "torch==2.13.0")
    locked = LockedStack(stack=Stack(python="3.11", versions=versions), requirements=pins, sha256="0" * 64)
    monkeypatch.setattr(Installer, "cpu_builds", lambda *of: CpuBuilds(requirements={"torch": "torch==2.13.0+cpu"}))
    monkeypatch.setattr(Installer, "cache_folder", Path(settings.environments) / "uv")
    monkeypatch.setattr(hardware, "has_gpu", lambda: False)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: Usage(free=10**9))
    found: list[str] = []
    target = open_target(settings, Installer(environment={}, uv="/not/there"), found.append)
    with pytest.raises(
        EnvironmentUnavailable, match="954 MiB of disk space are free, but 1 environment to build takes about"
    ):
        target.build([locked], lambda index, state, environment: None)
    assert found == ["1 environment to build: about 792 MiB of disk, and 780 MiB in uv's cache"]


def test_an_environment_without_such_variables_needs_no_line(settings: Settings) -> None:
    assert notes(settings) == []
