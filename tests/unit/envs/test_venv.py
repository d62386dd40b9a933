"""Environments: built for real from tiny packages, reused, repaired; failures as values, the machine's faults as errors."""

from __future__ import annotations

import contextlib
import errno
import logging
import multiprocessing
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
import pytest

from dsregress.envs import apart, venv
from dsregress.envs.installer import Installer
from dsregress.envs.pip_config import PipConfig
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import Environment, LockedStack
from tests.builders import tiny_packages

pytestmark = pytest.mark.slow  # environments are built

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

BROKEN = "def build_wheel(*a, **k):\n    raise RuntimeError('nvcc of /some/place/bin is missing')\n"

#: A backend that builds only where ``helper`` can be imported, as setups that import torch do.
NEEDS_HELPER = """
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    import helper
    name = "late-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder + "/" + name, "w") as archive:
        archive.writestr("late/__init__.py", "built_beside = True\\n")
        archive.writestr("late-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: late\\nVersion: 1.0\\n")
        archive.writestr("late-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr("late-1.0.dist-info/RECORD", "late/__init__.py,,\\n")
    return name
"""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        tiny_packages.wheel(folder, "mine", version)
    tiny_packages.wheel(folder, "helper", "1.0")
    tiny_packages.source_with_its_own_backend(folder, "broken", "1.0", BROKEN)
    tiny_packages.source_with_its_own_backend(folder, "late", "1.0", NEEDS_HELPER)
    return folder


def built(
    tmp_path: Path, locked: LockedStack, installer: Installer | None = None, framework: str = "mine"
) -> Environment:
    installer = installer or tiny_packages.installer(tmp_path / "index", tmp_path)
    return venv.build_venv(locked, folder=tmp_path / "work", installer=installer, gpu=False, framework=framework)


def test_an_environment_holds_exactly_its_lock(tmp_path: Path, index: Path) -> None:
    environment = built(tmp_path, tiny_packages.locked(PYTHON, "mine==1.0", "helper==1.0"))
    assert environment.failure is None
    assert environment.installed == {"helper": "1.0", "mine": "1.0"}
    printed = subprocess.run(
        [environment.python, "-c", "import mine, helper; print(mine.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout == "1.0\n"
    assert re.fullmatch(r"[0-9a-f]{64}", environment.code_sha256)
    assert environment.build_s > 0


def test_it_is_reused_while_the_lock_is_unchanged_even_without_an_index(tmp_path: Path, index: Path) -> None:
    locked = tiny_packages.locked(PYTHON, "mine==1.0")
    first = built(tmp_path, locked)
    nowhere = Installer(environment={}, pip=PipConfig(no_index=True), uv="/does/not/exist")
    again = built(tmp_path, locked, nowhere)
    assert again == msgspec.structs.replace(first, build_s=0.0)


def test_another_lock_is_another_environment(tmp_path: Path, index: Path) -> None:
    one = built(tmp_path, tiny_packages.locked(PYTHON, "mine==1.0"))
    two = built(tmp_path, tiny_packages.locked(PYTHON, "mine==2.0"))
    assert one.python != two.python
    assert one.code_sha256 != two.code_sha256


def test_a_half_built_environment_is_never_taken_for_whole(tmp_path: Path, index: Path) -> None:
    locked = tiny_packages.locked(PYTHON, "mine==1.0")
    place = Path(built(tmp_path, locked).python).parents[1]
    (place / "dsregress.json").unlink()
    (place / "left-over").touch()
    assert built(tmp_path, locked).failure is None
    assert not (place / "left-over").exists()


@pytest.mark.parametrize("marker", ["", "{", '{"schema": 1}', '"\\ud800"', "[" * 100_000, None])
def test_a_damaged_marker_means_building_again(tmp_path: Path, index: Path, marker: str | None) -> None:
    locked = tiny_packages.locked(PYTHON, "mine==1.0")
    place = Path(built(tmp_path, locked).python).parents[1]
    if marker is None:
        (place / "dsregress.json").unlink()
        os.mkfifo(place / "dsregress.json")
    else:
        (place / "dsregress.json").write_text(marker)
    (place / "left-over").touch()
    assert built(tmp_path, locked).failure is None
    assert not (place / "left-over").exists()


@pytest.mark.parametrize("file", ["mine/__init__.py", "mine-1.0.dist-info/RECORD", "mine-1.0.dist-info/METADATA"])
@pytest.mark.parametrize("damage", ["fifo", "device", "garbage", "folder"])
def test_whatever_a_release_makes_of_its_own_files_is_described(
    tmp_path: Path, index: Path, file: str, damage: str
) -> None:
    locked = tiny_packages.locked(PYTHON, "mine==1.0")
    first = built(tmp_path, locked)
    own = next(Path(first.python).parents[1].glob(f"lib/*/site-packages/{file}"))
    own.unlink()
    if damage == "fifo":
        os.mkfifo(own)
    elif damage == "device":
        own.symlink_to("/dev/zero")
    elif damage == "folder":
        own.mkdir()
    else:
        own.write_bytes(b'\xff\0"\r' * 1000)
    again = built(tmp_path, locked)
    assert again.failure is None
    assert again != first


def test_an_edit_of_the_installed_code_changes_its_hash(tmp_path: Path, index: Path) -> None:
    locked = tiny_packages.locked(PYTHON, "mine==1.0")
    first = built(tmp_path, locked)
    module = next(Path(first.python).parents[1].glob("lib/*/site-packages/mine/__init__.py"))
    with module.open("a") as text:
        text.write("# changed\n")
    edited = built(tmp_path, locked)
    assert edited.code_sha256 != first.code_sha256
    assert edited.notes == (f"mine: mine/__init__.py was edited in {module.parents[4].name}: that code is measured",)
    assert built(tmp_path, locked, framework="absent").code_sha256 == ""


def test_a_version_that_no_index_has_is_a_failure_of_the_stack(tmp_path: Path, index: Path) -> None:
    failure = built(tmp_path, tiny_packages.locked(PYTHON, "mine==9.0")).failure
    assert failure is not None
    assert (failure.stage, failure.signature.partition(":")[0]) == ("install", "no solution")
    assert "mine==9.0" in failure.signature
    assert str(tmp_path) not in failure.signature


def test_a_package_that_does_not_build_is_a_failure_with_its_own_words(tmp_path: Path, index: Path) -> None:
    failure = built(tmp_path, tiny_packages.locked(PYTHON, "mine==1.0", "broken==1.0")).failure
    assert failure is not None
    assert failure.signature == "build of broken: RuntimeError: nvcc of bin is missing"
    assert "RuntimeError: nvcc of .../bin is missing" in failure.detail
    assert [place.suffix for place in (tmp_path / "work" / "envs").iterdir()] == [".lock"]


def test_a_setup_that_needs_the_stack_is_built_beside_it(tmp_path: Path, index: Path) -> None:
    environment = built(tmp_path, tiny_packages.locked(PYTHON, "helper==1.0", "late==1.0", "mine==1.0"))
    assert environment.failure is None
    assert environment.installed == {"helper": "1.0", "late": "1.0", "mine": "1.0"}


def test_an_index_out_of_reach_is_the_machines_fault(tmp_path: Path, index: Path) -> None:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "UV_CACHE_DIR": str(tmp_path / "c"),
        "UV_HTTP_RETRIES": "0",
    }
    unreachable = Installer(environment=environment, pip=PipConfig(index_url="http://127.0.0.1:9/simple"))
    with pytest.raises(EnvironmentUnavailable, match="no package index can be reached") as caught:
        built(tmp_path, tiny_packages.locked(PYTHON, "mine==1.0"), unreachable)
    assert caught.value.exit_code == 3


def test_a_folder_that_cannot_be_made_is_the_machines_fault(tmp_path: Path, index: Path) -> None:
    (tmp_path / "work").write_text("a file")
    with pytest.raises(EnvironmentUnavailable, match="cannot be written"):
        built(tmp_path, tiny_packages.locked(PYTHON, "mine==1.0"))


def test_offline_says_so_instead_of_blaming_the_stack(tmp_path: Path, index: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "c")}
    offline = Installer(environment=environment, pip=PipConfig(), offline=True)
    with pytest.raises(EnvironmentUnavailable, match="offline|network was disabled"):
        built(tmp_path, tiny_packages.locked(PYTHON, "mine==1.0"), offline)


def test_all_are_built_in_the_order_given_and_reported(tmp_path: Path, index: Path) -> None:
    stacks = [tiny_packages.locked(PYTHON, f"mine=={version}") for version in ("1.0", "9.0", "2.0")]
    told: list[tuple[int, str]] = []
    environments = venv.build_all(
        stacks,
        folder=tmp_path / "work",
        installer=tiny_packages.installer(index, tmp_path),
        gpu=False,
        framework="mine",
        progress=lambda position, state, environment: told.append((position, state)),
    )
    assert [environment.stack for environment in environments] == [locked.stack for locked in stacks]
    assert [environment.failure is None for environment in environments] == [True, False, True]
    assert sorted(told) == sorted((position, state) for position in range(3) for state in ("started", "done"))


def _build_in_a_process(folder: str) -> str:
    return built(Path(folder), tiny_packages.locked(PYTHON, "mine==1.0")).python


def test_two_runs_at_once_build_it_once(tmp_path: Path, index: Path) -> None:
    # Neither a fork of a process with threads, as a worker of xdist is, nor `Pool`, which waits for ever for a lost one.
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        one, two = pool.map(_build_in_a_process, [str(tmp_path)] * 2)
    assert one == two
    assert len([place for place in (tmp_path / "work" / "envs").iterdir() if place.is_dir()]) == 1


def test_uv_resolves_a_stack_from_the_same_folder(tmp_path: Path, index: Path) -> None:
    tiny_packages.wheel(index, "mine", "3.0", requires=("helper",))
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("mine==3.0\n")
    output.write_text("")
    installer = tiny_packages.installer(index, tmp_path)
    assert installer.compile(source, output, "3.10") is None
    assert output.read_text().split() == ["helper==1.0", "mine==3.0"]
    source.write_text("mine==9.0\n")
    failed = installer.compile(source, output, "3.10")
    assert failed is not None
    assert failed.signature.startswith("no solution: ")


@pytest.mark.parametrize("where", ["create", "install", "separate"])
def test_a_full_disk_leaves_no_half_environment_and_the_next_run_recovers(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def full(*of: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    locked = tiny_packages.locked(PYTHON, "mine==1.0")
    with monkeypatch.context() as context:
        context.setattr(apart if where == "separate" else Installer, where, full)
        with pytest.raises(EnvironmentUnavailable, match="No space left on device"):
            built(tmp_path, locked)
    assert [place for place in (tmp_path / "work" / "envs").iterdir() if place.is_dir()] == []
    assert built(tmp_path, locked).failure is None


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.4, 0.8])
def test_a_build_that_is_killed_leaves_nothing_that_is_taken_for_whole(
    tmp_path: Path, index: Path, after_s: float
) -> None:
    process = multiprocessing.get_context("fork").Process(target=_build_in_a_process, args=(str(tmp_path),))
    process.start()
    time.sleep(after_s)
    process.kill()
    process.join(10)
    assert process.exitcode is not None
    whole = list((tmp_path / "work" / "envs").glob("*/dsregress.json"))
    locked = tiny_packages.locked(PYTHON, "mine==1.0")
    for file in whole:  # it was faster than the signal
        assert venv.existing_venv(locked, folder=tmp_path / "work", gpu=False, framework="mine") is not None, file
    environment = built(tmp_path, locked)
    assert environment.failure is None
    assert environment.installed == {"mine": "1.0"}


def test_a_truncated_wheel_leaves_no_half_environment_and_the_next_run_recovers(tmp_path: Path, index: Path) -> None:
    wheel = index / "mine-1.0-py3-none-any.whl"
    whole = wheel.read_bytes()
    wheel.write_bytes(whole[: len(whole) // 2])
    locked = tiny_packages.locked(PYTHON, "mine==1.0")
    with contextlib.suppress(EnvironmentUnavailable):
        assert built(tmp_path, locked).failure is not None
    assert [place for place in (tmp_path / "work" / "envs").iterdir() if place.is_dir()] == []
    wheel.write_bytes(whole)
    assert built(tmp_path, locked).failure is None


def test_the_debug_log_says_what_is_built_and_what_is_reused(
    tmp_path: Path, index: Path, caplog: pytest.LogCaptureFixture
) -> None:
    locked = tiny_packages.locked(PYTHON, "mine==1.0")
    with caplog.at_level(logging.DEBUG, logger="dsregress.envs"):
        built(tmp_path, locked)
        built(tmp_path, locked)
        built(tmp_path, tiny_packages.locked(PYTHON, "broken==1.0"))
    said = [re.sub(r"\d+\.\d s|[^ ]*/envs/[^ ]+", "X", record.getMessage()) for record in caplog.records]
    stack = locked.stack.id
    assert said == [
        *(f"{stack}: build X", f"{stack}: built in X", f"{stack}: reuse X"),
        f"py{PYTHON}-mine0: build X",
        f"py{PYTHON}-mine0: not built, X: build of broken: RuntimeError: nvcc of bin is missing",
    ]
