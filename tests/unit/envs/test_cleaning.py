"""What nobody uses is found with the disk that it takes, and removed; the environments that stay are whole."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from dsregress.envs import cleaning, venv
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import Environment
from dsregress.system import locks
from tests.builders import tiny_packages
from tests.nesting import nested

pytestmark = pytest.mark.slow  # environments are built

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Environments of two releases, which share a large package; the second one has another one besides."""
    index = tmp_path / "index"
    index.mkdir()
    for release in ("1.0", "2.0"):
        tiny_packages.wheel(index, "mine", release)
    for name in ("helper", "large", "other"):
        tiny_packages.wheel(index, name, "1.0", code="__version__ = 0" if name == "helper" else tiny_packages.LARGE)
    for release in ("1.0", "2.0"):
        tiny_packages.imported_version(built(tmp_path, release).python, "helper")
    return tmp_path / "work"


def built(folder: Path, release: str) -> Environment:
    more = ("other==1.0",) if release == "2.0" else ()
    locked = tiny_packages.locked(PYTHON, f"mine=={release}", "helper==1.0", "large==1.0", *more)
    installer = tiny_packages.installer(folder / "index", folder)
    return venv.build_venv(locked, folder=folder / "work", installer=installer, gpu=False, framework="mine")


def names(found: tuple[cleaning.Removable, ...], work: Path) -> list[str]:
    return [removable.place.relative_to(work).as_posix() for removable in found]


def disk(work: Path) -> int:
    files = {(file.stat().st_ino): file.stat() for file in work.rglob("*") if file.is_file() and not file.is_symlink()}
    return sum(status.st_blocks * 512 for status in files.values())


def test_what_all_environments_use_stays(work: Path) -> None:
    used = [place.name for place in (work / "envs").iterdir()]
    assert cleaning.unused(work, used) == ()


def test_an_environment_goes_with_what_it_alone_shares(work: Path) -> None:
    (one, two) = sorted(place.name for place in (work / "envs").iterdir() if place.is_dir())
    (work / "caches" / two.removesuffix("-cpu")).mkdir(parents=True)
    (work / "caches" / one.removesuffix("-cpu")).mkdir()
    found = cleaning.unused(work, [one])
    envs, shared, bytecode, caches = names(found, work)
    assert envs == f"envs/{two}"
    assert shared.startswith("shared/other-1.0-")
    assert bytecode.startswith("bytecode/other-1.0-")
    assert caches == f"caches/{two.removesuffix('-cpu')}"
    before = disk(work)
    for removable in found:
        cleaning.remove_unused(removable)
    assert before - disk(work) == sum(removable.size_bytes for removable in found) > len(tiny_packages.LARGE)
    assert sorted(place.name for place in (work / "envs").iterdir()) == [one, f"{one}.lock"]
    again = built(work.parent, "1.0")
    assert (again.build_s, again.notes) == (0.0, ())
    assert tiny_packages.imported_version(again.python, "large") == "1.0"
    assert built(work.parent, "2.0").failure is None


def test_beyond_a_limit_what_was_used_least_recently_goes(work: Path) -> None:
    (one, two) = sorted(place.name for place in (work / "envs").iterdir() if place.is_dir())
    built(work.parent, "1.0")  # it is there already, and used
    whole = sum(removable.size_bytes for removable in cleaning.everything(work))
    assert cleaning.beyond(work, whole) == ()
    found = cleaning.beyond(work, whole - 1)
    assert names(found, work)[0] == f"envs/{two}"
    assert found == cleaning.unused(work, [one])
    assert cleaning.beyond(work, 0) == cleaning.unused(work, [])


def test_all_of_them_go_with_all_that_serves_them_and_nothing_else(work: Path) -> None:
    kept = ("edited/helper-x/helper.py", "results/result.json", "mine.txt")
    for name in kept:
        (work / name).parent.mkdir(exist_ok=True, parents=True)
        (work / name).write_text("")
    found = cleaning.everything(work)
    assert names(found, work) == ["envs", "shared", "bytecode"]
    assert sum(removable.size_bytes for removable in found) > 2 * len(tiny_packages.LARGE)
    for removable in found:
        cleaning.remove_unused(removable)
    left = sorted(file.relative_to(work).as_posix() for file in work.rglob("*") if file.is_file())
    assert left == sorted(kept)
    shutil.rmtree(work / "edited")
    assert cleaning.everything(work) == cleaning.unused(work, ()) == ()


def test_while_an_environment_is_built_nothing_is_removed(tmp_path: Path) -> None:
    (tmp_path / "envs" / "one").mkdir(parents=True)
    file = tmp_path / "envs" / "one.lock"
    with locks.held(file, lambda: None), pytest.raises(EnvironmentUnavailable, match="another process is building it"):
        cleaning.check_idle(tmp_path)
    cleaning.check_idle(tmp_path)


def test_folders_nested_without_end_are_removed(tmp_path: Path) -> None:
    nested(tmp_path / "caches" / "one", 3000)
    (found,) = cleaning.everything(tmp_path)
    cleaning.remove_unused(found)
    assert list(tmp_path.iterdir()) == []


def test_folders_that_a_killed_run_left_without_permissions_are_removed(tmp_path: Path) -> None:
    shut = tmp_path / "caches" / "one" / "work"
    shut.mkdir(parents=True)
    shut.chmod(0)
    (found,) = cleaning.everything(tmp_path)
    cleaning.remove_unused(found)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_says_why(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "caches").symlink_to(tmp_path / "elsewhere")
    (found,) = cleaning.everything(tmp_path)
    with pytest.raises(OSError, match="symbolic link"):
        cleaning.remove_unused(found)
