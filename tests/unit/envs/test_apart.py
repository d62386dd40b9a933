"""Environments share no file that is written in place: neither with uv's cache, nor with one another."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from dsregress.envs import apart, bytecode, places, venv
from dsregress.envs.installer import Installer
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import Environment, Failed
from tests.builders import tiny_packages

pytestmark = pytest.mark.slow  # environments are built

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

#: Writes into files of its own, of a peer, and of a large package, as they lie on the disk.
HOSTILE = """
import os, pathlib
def spoil():
    packages = pathlib.Path(__file__).parents[1]
    for name in ("mine/__init__.py", "helper/__init__.py", "large/__init__.py"):
        os.chmod(packages / name, 0o644)
        with open(packages / name, "r+") as file:
            file.write("spoilt")
"""
LARGE = tiny_packages.LARGE


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        tiny_packages.wheel(folder, "mine", version, code=HOSTILE)
    tiny_packages.wheel(folder, "helper", "1.0")
    tiny_packages.wheel(folder, "large", "1.0", code=LARGE)
    return folder


def with_uv(tmp_path: Path, **more: str) -> Installer:
    return tiny_packages.installer(tmp_path / "index", tmp_path, **more)


def built(tmp_path: Path, version: str = "1.0", installer: Installer | None = None) -> Environment:
    locked = tiny_packages.locked(PYTHON, f"mine=={version}", "helper==1.0", "large==1.0")
    folder = tmp_path / "work"
    return venv.build_venv(locked, folder=folder, installer=installer or with_uv(tmp_path), gpu=False, framework="mine")


def code(environment: Environment, name: str) -> Path:
    return places.site_packages(Path(environment.python).parents[1]) / name / "__init__.py"


def spoil(environment: Environment) -> None:
    subprocess.run([environment.python, "-c", "import mine; mine.spoil()"], check=True)


def cached(tmp_path: Path) -> dict[str, bytes]:
    files = (tmp_path / "uv" / "archive-v0").rglob("*")
    return {str(file): file.read_bytes() for file in files if file.is_file()}


def reused(environment: Environment) -> Environment:
    """What a later build of the same returns."""
    return msgspec.structs.replace(environment, build_s=0.0)


def test_what_a_release_writes_in_place_reaches_neither_uvs_cache_nor_another_environment(
    tmp_path: Path, index: Path
) -> None:
    first = built(tmp_path)
    before = cached(tmp_path)
    assert any(text == LARGE.encode() for text in before.values())
    spoil(first)
    assert code(first, "large").read_text().startswith("spoilt")
    assert cached(tmp_path) == before
    second = built(tmp_path, "2.0")
    assert second.notes == ()
    assert code(second, "mine").read_text() == HOSTILE
    assert code(second, "helper").read_text() == "__version__ = '1.0'\n"
    assert code(second, "large").read_text() == LARGE


@pytest.mark.parametrize("mode", ["hardlink", "symlink", "copy", "clone"])
def test_no_file_is_uvs_however_the_user_has_it_link(tmp_path: Path, index: Path, mode: str) -> None:
    environment = built(tmp_path, installer=with_uv(tmp_path, UV_LINK_MODE=mode))
    theirs = {os.stat(file).st_ino for file in (tmp_path / "uv").rglob("*") if file.is_file()}
    packages = places.site_packages(Path(environment.python).parents[1])
    ours = [file for file in packages.rglob("*") if file.is_file()]
    assert len(ours) > 10
    assert [file for file in ours if file.is_symlink() or file.stat().st_ino in theirs] == []


def test_a_large_package_is_kept_once_for_all_environments_and_is_read_only(tmp_path: Path, index: Path) -> None:
    one, two = (built(tmp_path, version) for version in ("1.0", "2.0"))
    assert code(one, "large").samefile(code(two, "large"))
    assert code(one, "large").stat().st_mode & 0o222 == 0
    for name in ("mine", "helper"):
        assert not code(one, name).samefile(code(two, name))
        assert code(one, name).stat().st_mode & 0o200


def test_the_framework_under_test_is_copied_however_large(tmp_path: Path, index: Path) -> None:
    locked = tiny_packages.locked(PYTHON, "large==1.0", "mine==1.0")
    folder, installer = tmp_path / "work", with_uv(tmp_path)
    environment = venv.build_venv(locked, folder=folder, installer=installer, gpu=False, framework="large")
    assert code(environment, "large").stat().st_nlink == 1
    assert not (folder / "shared").exists()


def test_where_files_can_be_cloned_nothing_is_shared(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clone(source: int, target: int) -> bool:
        os.write(target, os.pread(source, os.fstat(source).st_size, 0))
        return True

    monkeypatch.setattr(apart, "_clone", clone)
    one, two = (built(tmp_path, version) for version in ("1.0", "2.0"))
    assert not code(one, "large").samefile(code(two, "large"))
    assert code(one, "large").read_text() == LARGE
    assert code(one, "large").stat().st_nlink == 1


def test_an_edit_of_a_shared_file_is_undone_for_all_and_its_text_is_kept(tmp_path: Path, index: Path) -> None:
    one, two = (built(tmp_path, version) for version in ("1.0", "2.0"))
    code(one, "large").chmod(0o644)
    code(one, "large").write_text("edited")
    again, other = built(tmp_path, "2.0"), built(tmp_path, "1.0")
    assert (again.code_sha256, other.code_sha256) == (two.code_sha256, one.code_sha256)
    assert code(one, "large").read_text() == code(two, "large").read_text() == LARGE
    (line,) = again.notes
    assert line.startswith("large: large/__init__.py was edited where all environments share it: restored")
    kept = sorted((tmp_path / "work" / "edited").rglob("*.py"))
    assert [file.read_text() for file in kept] == ["edited", "edited"]
    assert built(tmp_path, "2.0").notes == built(tmp_path, "1.0").notes == ()


def test_a_shared_file_that_cannot_be_restored_is_no_release_s_fault(tmp_path: Path, index: Path) -> None:
    one = built(tmp_path)
    code(one, "large").chmod(0o644)
    code(one, "large").write_text("edited")
    shutil.rmtree(tmp_path / "uv")
    (index / "large-1.0-py3-none-any.whl").unlink()
    with pytest.raises(EnvironmentUnavailable, match="large was edited where all environments share it"):
        built(tmp_path)


def test_an_edit_that_replaces_a_shared_file_is_measured_in_that_environment_alone(tmp_path: Path, index: Path) -> None:
    one, two = (built(tmp_path, version) for version in ("1.0", "2.0"))
    code(one, "large").unlink()
    code(one, "large").write_text("edited")
    edited = built(tmp_path)
    assert edited.code_sha256 != one.code_sha256
    assert "large: large/__init__.py was edited" in edited.notes[0]
    assert code(edited, "large").read_text() == "edited"
    assert built(tmp_path, "2.0") == reused(two)


def test_an_edited_peer_is_noticed_and_a_touched_one_is_not(tmp_path: Path, index: Path) -> None:
    first = built(tmp_path)
    os.utime(code(first, "helper"))
    assert built(tmp_path) == reused(first)
    with code(first, "helper").open("a") as text:
        text.write("#\n")
    edited = built(tmp_path)
    assert edited.code_sha256 != first.code_sha256
    assert edited.notes[0].startswith("helper: helper/__init__.py was edited")
    assert built(tmp_path) == edited


def test_the_same_wheels_have_the_same_code_wherever_they_are_installed(tmp_path: Path, index: Path) -> None:
    first = built(tmp_path)
    shutil.rmtree(tmp_path / "work")
    assert built(tmp_path).code_sha256 == first.code_sha256


def test_another_build_of_a_peer_is_other_code(tmp_path: Path, index: Path) -> None:
    def of(torch: str, where: str) -> str:
        tiny_packages.wheel(index, "torch", "1.0", code=torch)
        locked = tiny_packages.locked(PYTHON, "mine==1.0", "torch==1.0")
        installer = tiny_packages.installer(index, tmp_path / where)
        return venv.build_venv(
            locked, folder=tmp_path / where, installer=installer, gpu=True, framework="mine"
        ).code_sha256

    assert of("a = 1\n", "one") == of("a = 1\n", "two") != of("a = 2\n", "three")


def test_a_file_of_uvs_cache_that_is_not_its_wheels_is_not_installed(tmp_path: Path, index: Path) -> None:
    first = built(tmp_path)
    for file in (tmp_path / "uv" / "archive-v0").rglob("*/helper/__init__.py"):
        file.write_text("")  # as a machine that lost its power leaves it
    second = built(tmp_path, "2.0")
    assert code(second, "helper").read_text() == code(first, "helper").read_text() != ""
    (line,) = second.notes
    assert line.startswith("helper: helper/__init__.py in the installer's cache differs from its wheel")
    assert built(tmp_path, "2.0").notes == ()


def test_a_damaged_cache_that_no_index_can_replace_is_the_machines_fault(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(tmp_path)
    for file in (tmp_path / "uv" / "archive-v0").rglob("*/helper/__init__.py"):
        file.write_text("")
    monkeypatch.setattr(Installer, "install_anew", lambda *of: Failed("install", "gone"))
    with pytest.raises(
        EnvironmentUnavailable, match=r"helper/__init__\.py in the installer's cache .* no index provides it"
    ):
        built(tmp_path, "2.0")
    places = [place.name for place in (tmp_path / "work" / "envs").iterdir() if place.is_dir()]
    assert [name for name in places if "mine2.0" in name] == []


def test_a_record_that_is_wrong_is_its_publishers(tmp_path: Path, index: Path) -> None:
    wheel = index / "helper-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files["helper/__init__.py"] = b"of = 'another build'\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    environment = built(tmp_path)
    assert environment.failure is None
    assert environment.notes == ()
    assert built(tmp_path) == reused(environment)


def test_a_file_of_two_packages_is_neither_shared_nor_called_damaged(tmp_path: Path, index: Path) -> None:
    for name in ("large", "other"):
        tiny_packages.wheel(index, name, "1.0", code=LARGE, more={"common.py": f"of = '{name}'\n"})
    locked = tiny_packages.locked(PYTHON, "large==1.0", "mine==1.0", "other==1.0")
    environment = venv.build_venv(
        locked, folder=tmp_path / "work", installer=with_uv(tmp_path), gpu=False, framework="mine"
    )
    assert environment.notes == ()
    packages = places.site_packages(Path(environment.python).parents[1])
    assert (packages / "common.py").stat().st_nlink == 1
    assert (packages / "large" / "__init__.py").stat().st_nlink == 2
    os.utime(packages / "common.py")  # as a copy of the folder has it: contents decide
    again = venv.build_venv(locked, folder=tmp_path / "work", installer=with_uv(tmp_path), gpu=False, framework="mine")
    assert again.notes == ()


def test_what_no_environment_uses_any_more_is_removed_when_the_next_is_added(tmp_path: Path, index: Path) -> None:
    first = built(tmp_path)
    shared = tmp_path / "work" / "shared"
    (shared / ".unfinished-of-a-killed-run").mkdir()
    shutil.rmtree(Path(first.python).parents[1])
    tiny_packages.wheel(index, "large", "2.0", code=LARGE)
    locked = tiny_packages.locked(PYTHON, "mine==1.0", "large==2.0")
    venv.build_venv(locked, folder=tmp_path / "work", installer=with_uv(tmp_path), gpu=False, framework="mine")
    (left,) = [place for place in shared.iterdir() if place.is_dir()]
    assert left.name.startswith("large-2.0-")


@pytest.mark.parametrize("name", ["helper", "large"])
def test_what_one_environment_has_compiled_the_next_one_reads(tmp_path: Path, index: Path, name: str) -> None:
    one, two = (built(tmp_path, version) for version in ("1.0", "2.0"))
    assert tiny_packages.imported_version(one.python, name) == "1.0"
    (compiled,) = (code(one, name).parent / "__pycache__").iterdir()
    before = compiled.stat().st_ino
    assert tiny_packages.imported_version(two.python, name) == "1.0"
    (read,) = (code(two, name).parent / "__pycache__").iterdir()
    assert read.stat().st_ino == before


def test_the_frameworks_bytecode_is_its_environments_own(tmp_path: Path, index: Path) -> None:
    one = built(tmp_path)
    subprocess.run([one.python, "-c", "import mine"], check=True)
    assert not (code(one, "mine").parent / "__pycache__").is_symlink()


def test_a_package_that_is_edited_in_one_environment_runs_as_edited_there_and_as_it_was_elsewhere(
    tmp_path: Path, index: Path
) -> None:
    one, two = (built(tmp_path, version) for version in ("1.0", "2.0"))
    code(one, "helper").write_text("__version__ = '1.1'\n")  # of the same size, perhaps in the same second
    for _ in range(2):
        assert tiny_packages.imported_version(one.python, "helper") == "1.1"
        assert tiny_packages.imported_version(two.python, "helper") == "1.0"


SHA = "sha256=made-up"


def installed(packages: Path, records: dict[str, dict[str, str]]) -> None:
    for file in (file for record in records.values() for file in record):
        (packages / file).parent.mkdir(parents=True, exist_ok=True)
        (packages / file).touch()
        if not file.startswith("copied/"):
            os.utime(packages / file, (apart.WRITTEN_S, apart.WRITTEN_S))


def shares(packages: Path) -> list[str]:
    return [str(link.relative_to(packages)) for link in packages.rglob("__pycache__")]


def test_folders_of_two_distributions_and_of_files_that_the_installer_copied_keep_their_bytecode(
    tmp_path: Path,
) -> None:
    packages = tmp_path / "packages"
    records = {"a": dict.fromkeys(("ours/a.py", "both/a.py", "copied/a.py", "a.py"), SHA), "b": {"both/b.py": SHA}}
    installed(packages, records)
    bytecode.share_bytecode(packages, records, tmp_path / "bytecode", excluded=())
    assert shares(packages) == ["ours/__pycache__"]


def test_a_folder_that_the_framework_installs_into_as_well_keeps_its_bytecode(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    records = {"mine": {"mine/a.py": SHA, "mine/b.py": SHA}, "plugin": {"mine/plugin.py": SHA, "plugin/a.py": SHA}}
    installed(packages, records)
    bytecode.share_bytecode(packages, records, tmp_path / "bytecode", excluded={"mine"})
    assert shares(packages) == ["plugin/__pycache__"]


def test_what_its_wheel_does_not_vouch_for_keeps_its_bytecode(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    records = {"a": {"a/a.py": SHA, "unhashed/a.py": "", "weak/a.py": "md5=made-up", "gone/a.py": SHA}}
    installed(packages, records)
    (packages / "gone" / "a.py").unlink()
    bytecode.share_bytecode(packages, records, tmp_path / "bytecode", excluded=())
    assert shares(packages) == ["a/__pycache__"]
