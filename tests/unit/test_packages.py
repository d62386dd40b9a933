"""The histories that recorded bisections over commits are made on: releases, and each of their changes by itself."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.packages import sdists
from tests.packages.history import git

OLD = {
    "mine/__init__.py": "from mine.user import use\n",
    "mine/user.py": "from mine.base import make\n\n\ndef use():\n    return make()\n",
    "mine/base.py": "def make():\n    return 1\n\n\ndef keep():\n    return 2\n",
    "native/code.cpp": "// one\n",
    "mine.egg-info/PKG-INFO": "Version: 1.0\n",
}
NEW = {
    **OLD,
    "mine/user.py": "from mine.base import make, more\n\n\ndef use():\n    return make() + more(\n        2\n    )\n",
    "mine/base.py": "def make():\n    return 3\n\n\ndef keep():\n    return 2\n\n\ndef more(a):\n    return a\n",
    "native/code.cpp": "// two\n",
    "mine.egg-info/PKG-INFO": "Version: 1.1\n",
}


def packed(folder: Path, version: str, files: dict[str, str], mode: int = 0o644) -> Path:
    place = folder / f"mine-{version}.tar.gz"
    with tarfile.open(place, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"mine-{version}/{name}")
            member.size, member.mtime, member.mode = len(text), 1_700_000_000, mode
            archive.addfile(member, io.BytesIO(text.encode()))
    return place


@pytest.fixture
def releases(tmp_path: Path) -> list[Path]:
    return [packed(tmp_path, "1.0", OLD), packed(tmp_path, "1.1", NEW)]


def test_each_release_is_a_commit_with_a_tag_and_without_what_its_build_wrote(
    tmp_path: Path, releases: list[Path]
) -> None:
    folder = tmp_path / "repository"
    assert sdists.make(folder, releases) == ["1.0 from its sdist", "1.1 from its sdist"]
    assert git(folder, "tag").split() == ["v1.0", "v1.1"]
    assert git(folder, "ls-tree", "-r", "--name-only", "v1.1").split() == sorted(
        OLD.keys() - {"mine.egg-info/PKG-INFO"}
    )


def test_a_release_is_reached_in_steps_what_is_imported_first(tmp_path: Path, releases: list[Path]) -> None:
    folder = tmp_path / "repository"
    assert sdists.make(folder, releases, split=True) == [
        "1.0 from its sdist",
        "native/code.cpp: changed",
        "mine/base.py: make (1 of 2)",
        "mine/base.py: more (2 of 2)",
        "mine/user.py: its top level (1 of 2)",
        "mine/user.py: use (2 of 2)",
    ]
    for step in range(5):
        git(folder, "checkout", "--quiet", f"v1.1~{step}")
        subprocess.run([sys.executable, "-c", "import mine; mine.use()"], cwd=folder, check=True)
    plain = tmp_path / "plain"
    sdists.make(plain, releases)
    assert git(folder, "rev-parse", "v1.1^{tree}") == git(plain, "rev-parse", "v1.1^{tree}")


def test_a_copied_folder_is_a_link_again_though_each_lacks_files_of_the_other(tmp_path: Path) -> None:
    old = {"csrc/one.cpp": "1\n", "deepspeed/ops/csrc/one.cpp": "1\n", "deepspeed/ops/csrc/two.h": "2\n"}
    new = {**old, "csrc/one.metal": "3\n"}
    folder = tmp_path / "repository"
    made = sdists.make(folder, [packed(tmp_path, "1.0", old), packed(tmp_path, "1.1", new)], split=True)
    assert made == ["1.0 from its sdist", "csrc/one.metal: new"]
    assert (folder / "deepspeed/ops/csrc").readlink() == Path("../../csrc")
    assert sorted(file.name for file in (folder / "csrc").iterdir()) == ["one.cpp", "one.metal", "two.h"]


def test_a_file_may_become_a_program(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    old, new = packed(tmp_path, "1.0", {"mine.py": "x = 1\n"}), packed(tmp_path, "1.1", {"mine.py": "x = 2\n"}, 0o755)
    assert sdists.make(folder, [old, new], split=True) == ["1.0 from its sdist", "mine.py: its top level (1 of 1)"]
    assert git(folder, "ls-tree", "v1.1", "mine.py").startswith("100755")


def test_the_same_distributions_make_the_same_commits(tmp_path: Path, releases: list[Path]) -> None:
    made = []
    for name in ("one", "other"):
        sdists.make(tmp_path / name, releases, split=True)
        made.append(git(tmp_path / name, "rev-parse", "v1.1"))
    assert made[0] == made[1]
