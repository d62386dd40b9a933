"""Shared bytecode that has changed since Python wrote it is found, removed and compiled anew."""

from __future__ import annotations

import os
import py_compile
import sys
from pathlib import Path

import pytest

from dsregress.envs import places, venv
from dsregress.envs.bytecode_checks import check_bytecode, record_bytecode
from dsregress.model import Environment
from tests.builders import tiny_packages

PYTHON = Path(sys.executable)
ENTRY = "helper-1.0-0123456789abcdef"


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """A file of bytecode in a folder of shared bytecode."""
    source = tmp_path / "helper.py"
    source.write_text("def answer():\n    return 42\n\n\ndef question():\n    return [str(n) for n in range(9)]\n")
    file = tmp_path / "bytecode" / ENTRY / "helper" / "helper.cpython-311.pyc"
    py_compile.compile(str(source), cfile=str(file), doraise=True)
    return file


def check(file: Path) -> tuple[str, ...]:
    return check_bytecode(file.parents[2], [file.parents[1].name], PYTHON)


LINE = "helper-1.0: helper/helper.cpython-311.pyc: not what Python compiled; removed, to be compiled again"


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


def test_what_is_as_python_wrote_it_stays(compiled: Path) -> None:
    before = compiled.read_bytes()
    record_bytecode(compiled.parents[2])
    assert check(compiled) == check(compiled) == ()
    assert compiled.read_bytes() == before


def test_any_flipped_bit_of_what_a_run_has_recorded_is_found(compiled: Path) -> None:
    record_bytecode(compiled.parents[2])
    whole = compiled.read_bytes()
    for place in range(0, len(whole), 7):
        times = compiled.stat() if compiled.exists() else None
        compiled.write_bytes(whole)
        flip(compiled, place)
        if times is not None:  # as a disk does it
            os.utime(compiled, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert check(compiled) == (LINE,)
        assert not compiled.exists()
        compiled.write_bytes(whole)
        record_bytecode(compiled.parents[2])


@pytest.mark.parametrize("damage", ["half", "zeros", "fifo"])
def test_what_a_killed_run_left_is_read_before_it_is_used(compiled: Path, damage: str) -> None:
    whole = compiled.read_bytes()
    if damage == "half":
        compiled.write_bytes(whole[: len(whole) // 2])
    elif damage == "zeros":
        compiled.write_bytes(whole[:16] + bytes(len(whole) - 16))
    else:
        compiled.unlink()
        os.mkfifo(compiled)
    assert check(compiled) == (LINE,)
    assert not compiled.exists()


def test_bytecode_that_ends_the_interpreter_costs_that_file_alone(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        "files=$(cat)\n"
        'case "$files" in\n'
        "*a.pyc*) echo reads 0; kill -SEGV $$ ;;\n"
        "*b.pyc*) echo reads 0; echo damaged 0 ;;\n"
        "esac\n"
    )
    python.chmod(0o755)
    for name in ("a", "b"):
        (compiled.parent / f"{name}.pyc").write_bytes(compiled.read_bytes())
    compiled.unlink()
    (line,) = check_bytecode(compiled.parents[2], [ENTRY], python)
    assert " and 1 more: not what Python compiled" in line
    assert list(compiled.parent.iterdir()) == []


def test_damaged_digests_are_as_none(compiled: Path) -> None:
    record_bytecode(compiled.parents[2])
    (compiled.parents[1] / ".digests").write_bytes(b"\xff{")
    assert check(compiled) == ()
    assert check(compiled) == ()


# --- environments -----------------------------------------------------------------------------------------------------


def built(folder: Path, number: str) -> Environment:
    locked = tiny_packages.locked(
        f"{sys.version_info.major}.{sys.version_info.minor}", f"mine=={number}", "helper==1.0"
    )
    installer = tiny_packages.installer(folder / "index", folder)
    return venv.build_venv(locked, folder=folder / "work", installer=installer, gpu=False, framework="mine")


@pytest.mark.slow
@pytest.mark.parametrize("number", ["1.0", "2.0"])
def test_damaged_bytecode_fails_neither_the_environment_that_made_it_nor_a_new_one(tmp_path: Path, number: str) -> None:
    (tmp_path / "index").mkdir()
    for release in ("1.0", "2.0"):
        tiny_packages.wheel(tmp_path / "index", "mine", release)
    tiny_packages.wheel(tmp_path / "index", "helper", "1.0")
    first = built(tmp_path, "1.0")
    assert tiny_packages.imported_version(first.python, "helper") == "1.0"
    record_bytecode(tmp_path / "work" / places.BYTECODE)
    (compiled,) = (tmp_path / "work" / places.BYTECODE).rglob("*.pyc")
    content = compiled.read_bytes()
    compiled.write_bytes(content.replace(b"1.0", b"1.8"))
    assert tiny_packages.imported_version(first.python, "helper") == "1.8"

    again = built(tmp_path, number)
    assert again.notes == (
        "helper-1.0: helper/__init__.cpython-311.pyc: not what Python compiled; removed, to be compiled again",
    )
    assert tiny_packages.imported_version(again.python, "helper") == "1.0"
    assert built(tmp_path, number).notes == ()
