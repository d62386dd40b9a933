"""The image that .github/Dockerfile makes: the command in it, in a mounted folder, as a user who has no name there."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import wheels
from tests.containers.projects import Engine
from tests.paths import ROOT

#: Neither root, nor the owner of what is mounted, nor a user of the image.
NOBODY_THERE = 12345


@pytest.fixture(scope="module")
def base(docker_engine: Engine) -> Iterator[str]:
    """The base image with this machine's git, which needs little else, where its own packages cannot be configured."""
    made = None
    if docker_engine.base.startswith("dsregress-test-base"):
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as archive:
            archive.add(str(Path(shutil.which("git") or "git").resolve()), "git")
            recipe = f"FROM {docker_engine.base}\nCOPY git /usr/bin/git\n".encode()
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(recipe)
            archive.addfile(entry, io.BytesIO(recipe))
        context.seek(0)
        made, _ = docker_engine.client.images.build(fileobj=context, custom_context=True, tag="dsregress-test-base:git")
    yield "dsregress-test-base:git" if made else docker_engine.base
    if made:
        docker_engine.client.images.remove("dsregress-test-base:git", force=True)


@pytest.fixture(scope="module")
def image(docker_engine: Engine, base: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The image of this checkout's wheel."""
    context = tmp_path_factory.mktemp("context")
    wheel = wheels.build_distribution("wheel", tmp_path_factory.mktemp("wheel"))
    options = ("--quiet", "--only-binary", ":all:", "--dest", str(context / "wheels"))
    command = [sys.executable, "-m", "pip", "download", *options, str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        pytest.skip(f"no package index answers: {done.stderr.strip()[-300:]}")
    shutil.copy(ROOT / ".github" / "Dockerfile", context)
    made, _ = docker_engine.client.images.build(
        path=str(context), tag="dsregress-test-image", buildargs={"BASE": base}, network_mode="host", rm=True
    )
    yield made
    docker_engine.client.images.remove("dsregress-test-image", force=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository of a user who is not the container's, and who lets others write to it."""
    (tmp_path / "requirements.txt").write_text("deepspeed==0.16.4\n")
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    (tmp_path / "train.py").write_text("import deepspeed\ndeepspeed.initialize()\n")
    (tmp_path / "README.md").write_text("```\ndeepspeed --num_gpus 8 train.py\n```\n")
    for command in (["init"], ["add", "."], ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True, capture_output=True, timeout=60)
    tmp_path.chmod(0o777)
    for above in tmp_path.parents:
        if above.name.startswith("pytest-"):
            above.chmod(0o755)
    return tmp_path


@pytest.fixture
def dsregress(docker_engine: Engine, image: Any, folder: Path) -> Any:
    """A function that runs the image's command, and returns its exit code and all that it printed."""

    def run(*arguments: str) -> tuple[int, str]:
        container = docker_engine.client.containers.run(
            image, list(arguments), user=f"{NOBODY_THERE}:{NOBODY_THERE}", working_dir="/work", network_mode="none",
            volumes={str(folder): {"bind": "/work", "mode": "rw"}}, detach=True,
        )  # fmt: skip
        try:
            code = container.wait(timeout=120)["StatusCode"]
            return code, container.logs().decode()
        finally:
            container.remove(force=True)

    return run


def test_the_image_s_command_is_dsregress(dsregress: Any) -> None:
    assert dsregress("--version") == (0, "dsregress 0.1.0\n")


def test_a_mounted_requirements_file_is_audited(dsregress: Any) -> None:
    job = ("--config", "ds.json", "--ranks", "8", "--set", "gradient_checkpointing=non_reentrant")
    code, said = dsregress("audit", "-r", "requirements.txt", *job)
    assert code == 1, said
    assert "DSR-2026-" in said


def test_a_repository_of_another_user_is_audited_against_a_commit_of_it(dsregress: Any) -> None:
    code, said = dsregress("audit", "-r", "requirements.txt", "--against", "HEAD")
    assert (code, "dubious ownership" in said) == (0, False), said


def test_a_mounted_repository_s_job_is_found_and_nothing_is_written(dsregress: Any, folder: Path) -> None:
    before = sorted(file.name for file in folder.iterdir())
    code, said = dsregress("init", "--dry-run")
    assert code == 0, said
    assert 'program = "deepspeed --num_gpus 8 train.py"' in said
    assert sorted(file.name for file in folder.iterdir()) == before


def test_the_image_holds_no_package_manager_s_settings(image: Any) -> None:
    """What a machine's pip is told of its indexes and certificates is neither a variable nor a step of the image."""
    told = [*image.attrs["Config"]["Env"], *(layer["CreatedBy"] for layer in image.history())]
    assert not [text for text in told if any(name in text for name in ("PIP_", "index-url", "CERT", "PROXY"))]
