"""The disk that environments take is said before they are built, and what does not fit is refused."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from dsregress.envs.disk import DiskNeed, check_room, disk_need
from dsregress.envs.installer import Installer
from dsregress.envs.places import environment_folder
from dsregress.envs.recipe import CpuBuilds
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import LockedStack, Stack

MB = 1_000_000

PINS = (
    "nvidia-cublas-cu12==12.4.5.8 ; sys_platform == 'linux'",
    "nvidia-cublas-cu11==11.10.3.66 ; sys_platform == 'win32'",
    "numpy==2.4.6",
    "small==1.0",
    "torch==2.13.0",
    "triton==3.7.1 ; sys_platform == 'linux'",
)


def locked(deepspeed: str) -> LockedStack:
    pins = (*PINS, f"deepspeed=={deepspeed}")
    versions = {"torch": "2.13.0", "deepspeed": deepspeed}
    return LockedStack(stack=Stack(python="3.11", versions=versions), requirements=pins, sha256=deepspeed * 12)


class Offering(Installer):
    """An installer whose indexes have these builds for the CPU, and whose uv has unpacked what lies in a folder."""

    def __init__(self, cache: Path, **builds: str) -> None:
        super().__init__(environment={}, uv="uv")
        self._builds = builds
        self.__dict__["cache_folder"] = cache

    def cpu_builds(self, requirements: object, python: str) -> CpuBuilds:
        return CpuBuilds(requirements=self._builds)


def need(tmp_path: Path, *deepspeed: str, **builds: str) -> DiskNeed:
    installer = Offering(tmp_path / "uv", **builds)
    return disk_need([locked(version) for version in deepspeed], tmp_path / "work", installer, gpu=False)


CPU = {"torch": "torch==2.13.0+cpu"}
URL = {"torch": "torch @ https://elsewhere.org/torch-2.13.0%2Bcpu-cp311-cp311-linux_x86_64.whl#sha256=aa"}


@pytest.mark.parametrize("builds", [CPU, URL])
def test_what_environments_share_counts_once_and_their_own_files_each_time(
    tmp_path: Path, builds: dict[str, str]
) -> None:
    large = (760 + 58) * MB
    own = int((12 + 0.5) * MB)
    assert need(tmp_path, "0.16.4", **builds) == DiskNeed(environments=1, own_bytes=large + own, cache_bytes=large)
    two = need(tmp_path, "0.16.4", "0.16.5", **builds)
    assert two == DiskNeed(environments=2, own_bytes=large + 2 * own, cache_bytes=large)
    assert two.text == "2 environments to build: about 804 MiB of disk, and 780 MiB in uv's cache"


def test_cuda_packages_are_counted_and_named_where_there_is_no_build_for_the_cpu(tmp_path: Path) -> None:
    found = need(tmp_path, "0.16.4")
    assert found.cache_bytes == (1185 + 570 + 58 + 997) * MB
    assert found.notes == (
        "torch 2.13.0: its build for the CPU is in no index: installed with its CUDA packages, 4 GB more",
    )
    assert found.text == "1 environment to build: about 2.63 GiB of disk, and 2.62 GiB in uv's cache"


def test_what_is_built_shared_or_unpacked_already_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "work" / "shared" / "torch-2.13.0+cpu-1134c3e90d41d225").mkdir(parents=True)
    (tmp_path / "uv" / "archive-v0" / "abc" / "torch-2.13.0+cpu.dist-info").mkdir(parents=True)
    (tmp_path / "uv" / "archive-v0" / "def" / "numpy-2.4.6.dist-info").mkdir(parents=True)
    assert need(tmp_path, "0.16.4", **CPU) == DiskNeed(environments=1, own_bytes=int((58 + 12.5) * MB), cache_bytes=0)
    place = environment_folder(locked("0.16.4"), tmp_path / "work", gpu=False)
    place.mkdir(parents=True)
    assert need(tmp_path, "0.16.4", **CPU).environments == 1  # a killed run left it
    (place / "dsregress.json").touch()
    assert need(tmp_path, "0.16.4", **CPU) == DiskNeed()
    assert DiskNeed().text == ""


def test_little_is_not_worth_a_line() -> None:
    assert DiskNeed(environments=3, own_bytes=60 * MB, cache_bytes=30 * MB).text == ""


_Usage = namedtuple("_Usage", "total used free")


def test_what_does_not_fit_is_refused_before_it_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: _Usage(0, 0, 1000 * MB))
    wanted = DiskNeed(environments=2, own_bytes=600 * MB, cache_bytes=290 * MB)
    check_room(wanted, tmp_path / "not" / "there", tmp_path / "uv")
    with pytest.raises(EnvironmentUnavailable) as refused:
        check_room(DiskNeed(environments=2, own_bytes=600 * MB, cache_bytes=310 * MB), tmp_path / "not", tmp_path)
    assert refused.value.exit_code == 3
    assert str(refused.value) == (
        f"{tmp_path}: 954 MiB of disk space are free, but 2 environments to build take about 868 MiB; "
        "free disk space (`clean` removes unused environments), or set DSREGRESS_ENVIRONMENTS to another disk"
    )
    check_room(DiskNeed(), tmp_path, tmp_path)
