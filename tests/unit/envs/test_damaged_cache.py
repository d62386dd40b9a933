"""A damaged entry of uv's cache is installed past the cache; only what a fresh download fails at is the release's."""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dsregress.envs import venv
from dsregress.envs.installer import Installer
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import Environment, Failed
from tests.builders import tiny_packages

pytestmark = pytest.mark.slow  # environments are built

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
#: A build backend that imports a package which its requirements name.
NEEDS_HELPER = """
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    import helper
    name = "built-1.0-py3-none-any.whl"
    files = {
        "built/__init__.py": "",
        "built-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: built\\nVersion: 1.0\\n",
        "built-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files["built-1.0.dist-info/RECORD"] = "".join(f"{file},,\\n" for file in files)
    with zipfile.ZipFile(folder + "/" + name, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return name
"""


def built(folder: Path, *requirements: str, installer: Installer | None = None) -> Environment:
    """A new environment from the index in a folder, with the cache beside it."""
    shutil.rmtree(folder / "work", ignore_errors=True)
    locked = tiny_packages.locked(PYTHON, *(requirements or ("mine==1.0", "helper==1.0")))
    installer = installer or tiny_packages.installer(folder / "index", folder)
    return venv.build_venv(locked, folder=folder / "work", installer=installer, gpu=False, framework="mine")


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A folder with an index, and a cache that has been used once."""
    index = tmp_path / "index"
    index.mkdir()
    for name in ("mine", "helper"):
        tiny_packages.wheel(index, name, "1.0")
    assert built(tmp_path).failure is None
    return tmp_path


def of_cache(folder: Path, pattern: str) -> Path:
    (found,) = (folder / "uv").glob(pattern)
    return found


def empty(file: Path) -> None:
    file.write_bytes(b"")


def zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def noise(file: Path) -> None:
    file.write_bytes(bytes((7 * index + 129) % 256 for index in range(file.stat().st_size)))


def gone(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()


def a_file(place: Path) -> None:
    shutil.rmtree(place)
    place.write_text("")


INFO = "archive-v0/*/mine-1.0.dist-info"


@pytest.mark.parametrize(
    ("place", "damage"),
    [
        *[(f"{INFO}/METADATA", damage) for damage in (empty, zeros, half, noise, gone)],
        *[(f"{INFO}/WHEEL", damage) for damage in (empty, zeros, half, noise, gone)],
        *[(f"{INFO}/RECORD", damage) for damage in (empty, zeros, half, noise, gone)],
        (INFO, gone),
        (INFO, a_file),
        *[("wheels-v*/index/*/mine/*.rev", damage) for damage in (empty, zeros, half, noise)],
    ],
)
def test_what_is_damaged_is_installed_without_the_cache_and_named(
    used: Path, place: str, damage: Callable[[Path], None]
) -> None:
    first = built(used)
    damage(of_cache(used, place))
    environment = built(used)
    assert environment.failure is None
    assert environment.installed == {"helper": "1.0", "mine": "1.0"}
    assert environment.code_sha256 == first.code_sha256 != ""
    (line,) = environment.notes
    assert line.startswith("mine: ")
    assert line.endswith(": installed without the cache (uv cache clean mine)")


def test_the_line_says_what_is_damaged(used: Path) -> None:
    gone(of_cache(used, INFO))
    assert built(used).notes == (
        "mine: damaged in uv's cache (The wheel is invalid: Missing .dist-info directory): "
        "installed without the cache (uv cache clean mine)",
    )


def test_several_that_are_damaged_are_all_replaced(used: Path) -> None:
    empty(of_cache(used, f"{INFO}/METADATA"))
    empty(of_cache(used, "archive-v0/*/helper-1.0.dist-info/WHEEL"))
    environment = built(used)
    assert environment.installed == {"helper": "1.0", "mine": "1.0"}
    assert sorted(line.partition(":")[0] for line in environment.notes) == ["helper", "mine"]


def test_a_damaged_tool_of_a_build_is_no_failure_of_what_is_built(used: Path) -> None:
    tiny_packages.source_with_its_own_backend(used / "index", "built", "1.0", NEEDS_HELPER, requires=("helper",))
    empty(of_cache(used, "archive-v0/*/helper-1.0.dist-info/METADATA"))
    environment = built(used, "built==1.0", "mine==1.0")
    assert environment.failure is None
    assert environment.installed == {"built": "1.0", "mine": "1.0"}
    (line,) = environment.notes
    assert line.startswith("helper: damaged in uv's cache")


def test_a_wheel_that_a_fresh_download_cannot_install_either_is_the_releases_failure(used: Path) -> None:
    wheel = used / "index" / "mine-2.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("mine/__init__.py", "")
        archive.writestr("mine-2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: mine\nVersion: 2.0\n")
        archive.writestr("mine-2.0.dist-info/WHEEL", "no such thing\n")
        archive.writestr("mine-2.0.dist-info/RECORD", "mine/__init__.py,,\n")
    failure = built(used, "mine==2.0").failure
    assert isinstance(failure, Failed)
    assert failure.stage == "install"
    assert "mine-2.0-py3-none-any.whl" in failure.signature


def test_an_index_that_is_gone_meanwhile_is_the_machines_fault(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty(of_cache(used, f"{INFO}/METADATA"))

    def out_of_reach(*of: object) -> None:
        raise EnvironmentUnavailable("no package index can be reached (dns error)", where="installing", hint="")

    monkeypatch.setattr(Installer, "install_anew", out_of_reach)
    with pytest.raises(EnvironmentUnavailable) as refused:
        built(used)
    assert str(refused.value) == (
        "installing: mine in uv's cache is damaged (The wheel is invalid: Metadata field Name not found) and cannot be "
        "downloaded again: no package index can be reached (dns error); uv cache clean mine"
    )
