"""What images are made of, which are removed, and what an engine's complaints mean: all that needs no engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker.errors import APIError, DockerException

from dsregress.config.containers import Containers
from dsregress.envs import bringing
from dsregress.envs.installer import Installer
from dsregress.envs.pip_config import PipConfig
from dsregress.envs.recipe import CpuBuilds
from dsregress.envs.stack_images import ImageParts, StoredImage, base_image, image_parts, superfluous
from dsregress.model import LockedStack, Stack
from dsregress.system import container_engine

DEFAULT = Containers()
CUDA = "nvidia-cuda-runtime-cu12==12.4.127 ; sys_platform == 'linux'"


def locked(version: str, *more: str, python: str = "3.11") -> LockedStack:
    lines = (f"deepspeed=={version}", "hjson==3.1.0", "torch==2.5.1", *more)
    return LockedStack(
        stack=Stack(python=python, versions={"deepspeed": version}), requirements=lines, sha256=version * 9
    )


def made(lock: LockedStack, limits: Containers = DEFAULT, *, gpu: bool = False) -> ImageParts:
    builds = CpuBuilds(requirements={} if gpu else {"torch": "torch==2.5.1+cpu"})
    return image_parts(lock, "deepspeed", limits, gpu=gpu, cpu_builds=builds)


def kept(tag: str, stack: str = "", common: str = "c") -> StoredImage:
    return StoredImage(
        id="sha256:0", tag=tag, role="stack" if stack else "common", stack=stack, lock_sha256="", base="b",
        common=common, created="", size_bytes=1,
    )  # fmt: skip


def test_releases_share_all_but_the_framework_under_test() -> None:
    one, other = made(locked("0.15.0")), made(locked("0.16.4"))
    assert one.common == ("hjson==3.1.0", "torch==2.5.1+cpu")
    assert one.framework == ("deepspeed==0.15.0",)
    assert one.common_tag == other.common_tag
    assert one.tag != other.tag
    assert other.tag == f"dsregress:deepspeed-0.16.4-{other.key}"


@pytest.mark.parametrize(
    "other",
    [
        made(locked("0.15.0"), Containers(base="debian")),
        made(locked("0.15.0", "einops==0.8.0")),
        made(locked("0.15.0", python="3.12")),
        made(locked("0.15.0", CUDA), gpu=True),
    ],
)
def test_another_base_python_or_package_is_another_image(other: ImageParts) -> None:
    assert {other.common_tag, other.tag}.isdisjoint({made(locked("0.15.0")).common_tag, made(locked("0.15.0")).tag})


def test_the_base_image_is_that_of_the_python_or_of_the_cuda_release_or_as_configured() -> None:
    assert base_image(locked("0.15.0"), Containers(), gpu=False) == "python:3.11-slim"
    assert base_image(locked("0.15.0", CUDA), Containers(), gpu=True) == "nvidia/cuda:12.4.1-runtime-ubuntu22.04"
    assert base_image(locked("0.15.0", CUDA), Containers(base="mine:1"), gpu=True) == "mine:1"


def test_what_is_pruned_is_what_was_named_and_what_nothing_stands_on_any_more() -> None:
    a, b, other = kept("a", "ds0.15.0"), kept("b", "ds0.16.4"), kept("o", "ds0.19.8", common="d")
    shared, alone, unused = kept("c"), kept("d", common="d"), kept("u", common="u")
    found = [a, b, other, shared, alone, unused]
    assert superfluous(found, (), ()) == found
    assert superfluous(found, ("0.15.0",), ()) == [a]
    assert superfluous(found, ("0.15.0", "0.16"), ()) == [a, b, shared]
    assert superfluous(found, (), ("0.15.0",)) == [b, other, alone, unused]
    assert superfluous(found, ("ds",), ("0.16.4", "0.15.0")) == [other, alone]


def test_a_build_is_brought_the_packages_of_local_folders_that_it_needs_and_no_others(tmp_path: Path) -> None:
    for name in (
        "torch-2.5.1+cpu-cp311-cp311-linux_x86_64.whl",
        "torch-2.4.0-py3-none-any.whl",
        "hjson-3.1.0.tar.gz",
        "x",
    ):
        (tmp_path / name).touch()
    page = tmp_path / "simple" / "einops"
    page.mkdir(parents=True)
    (page / "einops-0.8.0-py3-none-any.whl").touch()
    (page / "index.html").write_text(
        '<a href="einops-0.8.0-py3-none-any.whl#sha256=0">one</a><a href="gone-1.whl">two</a>'
    )
    pip = PipConfig(find_links=(str(tmp_path),), extra_index_urls=(f"file://{tmp_path}/simple", "https://a/simple"))
    installer = Installer(environment={"HOME": str(tmp_path)}, pip=pip)
    wanted = ("torch==2.5.1+cpu", "hjson==3.1.0", "einops==0.8.0 ; python_version > '3'")
    bringing.bring(installer, wanted, tmp_path / "context")
    assert sorted(file.name for file in (tmp_path / "context" / "packages").iterdir()) == [
        "einops-0.8.0-py3-none-any.whl",
        "hjson-3.1.0.tar.gz",
        "torch-2.5.1+cpu-cp311-cp311-linux_x86_64.whl",
    ]
    settings = (tmp_path / "context" / "settings.sh").read_text()
    assert "export UV_INDEX='https://pypi.org/simple https://a/simple'\n" in settings
    assert str(tmp_path) not in settings


@pytest.mark.parametrize(
    ("complaint", "line"),
    [
        (
            DockerException(
                "Error while fetching server API version: "
                "('Connection aborted.', FileNotFoundError(2, 'No such file or directory'))"
            ),
            "docker: the Docker daemon does not respond; start it (systemctl start docker), or set DOCKER_HOST",
        ),
        (
            DockerException(
                "Error while fetching server API version: ('Connection aborted.', PermissionError(13, 'Permission denied'))"
            ),
            "docker: permission denied for the Docker daemon; join its group (usermod -aG docker YOU, then log "
            "in again), or set DOCKER_HOST to a rootless daemon",
        ),
        (
            APIError("500 Server Error: write /var/lib/docker/tmp/x: no space left on device"),
            "docker: the disk of the Docker daemon is full; `dsregress clean --images` and `docker system prune` "
            "free space",
        ),
        (
            APIError('could not select device driver "" with capabilities: [[gpu]]'),
            "docker: the Docker daemon offers no GPUs; install the NVIDIA Container Toolkit",
        ),
    ],
)
def test_what_an_engine_complains_of_is_one_line_that_says_what_to_do(complaint: Exception, line: str) -> None:
    assert str(container_engine.engine_fault(complaint)) == line
    assert container_engine.engine_fault(complaint).exit_code == 3
