"""Frameworks from a commit: their environments, their repositories, and what changed between two."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness.envs import recipe, venv
from harness.envs.changed_files import changed_files
from harness.envs.repository import Repository
from harness.envs.venv import Source
from harness.errors import UsageError
from harness.model import Failed, LockedStack, Stack
from harness.versions import commits, locking
from tests.builders import tiny_packages
from tests.packages import history

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

_BACKEND = """
import pathlib, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    info = "mine-9.dist-info"
    files = {"mine/__init__.py": pathlib.Path("mine.py").read_text(),
             f"{info}/METADATA": "Metadata-Version: 2.1\\nName: mine\\nVersion: 9\\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: tiny\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
    files[f"{info}/RECORD"] = "".join(f"{name},,\\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(pathlib.Path(folder) / "mine-9-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return "mine-9-py3-none-any.whl"
"""


def source(code: str, backend: str = _BACKEND) -> Source:
    def unpack(folder: Path) -> None:
        folder.mkdir()
        (folder / "mine.py").write_text(code)
        (folder / "backend.py").write_text(backend)
        (folder / "pyproject.toml").write_text(
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
            '[project]\nname = "mine"\nversion = "9"\n'
        )

    return Source(package="mine", unpack=unpack)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    history.make(tmp_path / "upstream")
    made = Repository(str(tmp_path / "upstream"), cache=tmp_path / "cache", environment={"PATH": os.environ["PATH"]})
    made.open()
    return made


def test_a_commit_is_installed_beside_what_the_lock_of_a_release_pins(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    tiny_packages.wheel(index, "other", "1.0")
    release = tiny_packages.locked(PYTHON, "mine==1.0", "other==1.0")
    stack = commits.stack_of(release.stack, "mine", commits.version_of("1.0", "f" * 40))
    locked = commits.lock_of(release, stack, "mine")
    assert locked.requirements == (f"mine==1.0+g{'f' * 12}", "other==1.0")
    built = [
        venv.build(
            lock,
            folder=tmp_path / "work",
            installer=tiny_packages.installer(index, tmp_path / "cache"),
            gpu=False,
            framework="mine",
            source=source(code),
        )
        for lock, code in ((locked, "A = 1\n"), (commits.lock_of(release, release.stack, "mine"), "A = 2\nB = 3\n"))
    ]
    assert [environment.failure for environment in built] == [None, None]
    assert built[0].installed["mine"] == "9"
    assert built[0].installed["other"] == "1.0"
    assert built[0].code_sha256 != built[1].code_sha256
    assert changed_files(built[0], built[1], "mine") == ("+2 -1 mine/__init__.py",)
    place = Path(built[0].python).parents[1]
    assert [path.name for path in place.iterdir() if path.name.startswith("source-")] == []
    assert venv.existing(locked, folder=tmp_path / "work", gpu=False, framework="mine") == built[0]


def test_a_commit_that_does_not_build_is_a_failure_of_its_stack(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    broken = "def build_wheel(*arguments, **more):\n    raise RuntimeError('Connection refused by nvcc')\n"
    built = venv.build(
        tiny_packages.locked(PYTHON, "mine==1.0"),
        folder=tmp_path / "work",
        installer=tiny_packages.installer(index, tmp_path / "cache"),
        gpu=False,
        source=source("", broken),
    )
    assert isinstance(built.failure, Failed)
    assert (built.failure.stage, built.failure.signature) == (
        "install",
        "build of mine: RuntimeError: Connection refused by nvcc",
    )


def test_only_the_pins_of_the_package_itself_are_left_out() -> None:
    lines = ("my-frame==1.0", "my_frame==1.0", "my-frame-extra==2.0", "torch==2.5 ; python_version < '3.12'")
    assert recipe.without(lines, "My.Frame") == ("my-frame-extra==2.0", "torch==2.5 ; python_version < '3.12'")


def test_a_lock_without_the_package_is_no_lock_of_its_commits() -> None:
    with pytest.raises(UsageError, match="tiny is not in the stack"):
        commits.lock_of(
            tiny_packages.locked(PYTHON, "other==1.0"), Stack(python=PYTHON, versions={"tiny": "1"}), "tiny"
        )


def test_versions_of_commits_sort_behind_their_release() -> None:
    from packaging.version import Version

    name = commits.version_of("0.15.4", "1a2b3c4d5e6f7a8b")
    assert name == "0.15.4+g1a2b3c4d5e6f"
    assert Version("0.15.4") < Version(name) < Version("0.16.0")
    assert (commits.is_commit(name), commits.is_commit("0.15.4"), commits.is_commit("2.13.0+cpu")) == (
        True,
        False,
        False,
    )


def test_a_lock_that_was_never_resolved_is_not_known(tmp_path: Path) -> None:
    stack = Stack(python="3.11", versions={"mine": "1.0"})
    assert locking.known(stack, cache=tmp_path) is None

    def compile(source: Path, output: Path, python: str) -> Failed | None:
        output.write_text("mine==1.0\n")
        return None

    made = locking.lock(stack, cache=tmp_path, compile=compile)
    assert isinstance(made, LockedStack)
    assert locking.known(stack, cache=tmp_path) == made


def test_the_commits_between_two_releases_come_oldest_first(repository: Repository) -> None:
    old, new = (repository.release("tinyframe", version) for version in ("1.0.0", "1.1.0"))
    between = repository.between(old, new)
    assert [commit.subject for commit in between] == list(history.HISTORY)[:7]
    assert repository.newest_tag(between[3]) == "1.0.0"
    assert repository.changed_files(between[0], between[1]) == ("+1 -1 CHANGES",)
    assert repository.patch(between[0], between[1], ["CHANGES"]) == (
        "CHANGES",
        "@@ -1 +1 @@",
        "-0: Release 1.0.0",
        "+1: Split the engine from its memory",
    )
    with pytest.raises(UsageError, match="is not newer than"):
        repository.between(new, old)


def test_a_release_that_has_no_tag_is_told_before_anything_is_measured(repository: Repository) -> None:
    with pytest.raises(UsageError, match=r"has neither a tag v7.0 or 7.0 nor a commit of that name"):
        repository.release("tinyframe", "7.0")


def test_a_commit_is_unpacked_without_touching_the_clone(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit("HEAD~6")
    assert commit is not None
    repository.unpack(commit, tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "tinyframe" / "_release.py").read_text() == 'BEHAVIOUR = "not-importing"\n'
    assert history.git(tmp_path / "upstream", "status", "--porcelain") == ""
    assert repository.head().subject == "Thank who reported it"


def test_a_url_is_cloned_once_and_asked_again_for_what_is_missing(tmp_path: Path) -> None:
    upstream = tmp_path / "upstream"
    history.make(upstream)
    place = f"file://{upstream}"
    far = Repository(place, cache=tmp_path / "cache", environment={"PATH": os.environ["PATH"]})
    far.open()
    (upstream / "CHANGES").write_text("later\n")
    history.git(upstream, "commit", "--quiet", "--all", "--message", "Later")
    later = history.git(upstream, "rev-parse", "HEAD")
    again = Repository(place, cache=tmp_path / "cache", environment={"PATH": os.environ["PATH"]})
    again.open()
    found = again.commit(later)
    assert found is not None
    assert found.subject == "Later"
    again.unpack(found, tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "CHANGES").read_text() == "later\n"
