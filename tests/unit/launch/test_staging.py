"""The copy of the probe that is measured with."""

from __future__ import annotations

import importlib.util
import marshal
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dsregress.errors import UsageError
from dsregress.launch import staging


def silent(line: str) -> None:
    raise AssertionError(line)


@pytest.fixture
def scenarios(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "one.py").write_text("SCENARIO = 1\n")
    return folder


def test_the_copy_holds_the_probe_and_the_scenarios_alone(tmp_path: Path, scenarios: Path) -> None:
    folder = staging.stage(staging.probe_files(scenarios), tmp_path / "probe", silent)
    copied = {str(file.relative_to(folder)) for file in folder.rglob("*.py")}
    assert {"dsregress/__init__.py", "dsregress/probe/process/server.py", "scenarios/one.py"} <= copied
    ours = ("dsregress/__init__", "dsregress/probe/", "dsregress/programs/", "scenarios/", "skeletons/", "vgpu/")
    assert not [name for name in copied if not name.startswith(ours)]
    program = "import dsregress.probe.border.wire; print(dsregress.__file__)"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(folder / "dsregress" / "__init__.py")


def test_programs_of_scenarios_are_copied_with_all_their_files(scenarios: Path) -> None:
    (scenarios / "programs" / "lora" / "__pycache__").mkdir(parents=True)
    for name in ("zero3.yaml", "train.py", "__pycache__/train.pyc"):
        (scenarios / "programs" / "lora" / name).write_text("")
    copied = [name for name in staging.probe_files(scenarios) if name.startswith("scenarios/")]
    assert copied == ["scenarios/one.py", "scenarios/programs/lora/train.py", "scenarios/programs/lora/zero3.yaml"]


def test_equal_content_is_copied_once_and_an_edit_makes_another(tmp_path: Path, scenarios: Path) -> None:
    first = staging.stage(staging.probe_files(scenarios), tmp_path / "probe", silent)
    assert staging.stage(staging.probe_files(scenarios), tmp_path / "probe", silent) == first
    (scenarios / "one.py").write_text("SCENARIO = 2\n")
    assert staging.stage(staging.probe_files(scenarios), tmp_path / "probe", silent) != first
    assert (first / "scenarios" / "one.py").read_text() == "SCENARIO = 1\n"


def test_a_missing_folder_of_scenarios_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent: no such folder"):
        staging.probe_files(tmp_path / "absent")


def test_the_hash_of_the_probe_covers_the_probe_alone(tmp_path: Path, scenarios: Path) -> None:
    before = staging.probe_files(scenarios)
    for name in ("one.py", "models.py", "families.py"):
        (scenarios / name).write_text("CHANGED = 1\n")
    after = staging.probe_files(scenarios)
    assert staging.probe_sha256(after) == staging.probe_sha256(before)
    edited = {**after, "dsregress/probe/process/server.py": b"CHANGED = 1\n"}
    assert staging.probe_sha256(edited) != staging.probe_sha256(before)


def with_bytecode(folder: Path) -> None:
    """Bytecode that Python takes for that of the source: it compares the source's time and size alone."""
    source = folder / "dsregress" / "probe" / "border" / "wire.py"
    code = compile("raise SystemExit('hostile bytecode ran')", str(source), "exec")
    state = source.stat()
    file = Path(importlib.util.cache_from_source(str(source)))
    file.parent.mkdir(exist_ok=True)
    header = importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, int(state.st_mtime), state.st_size)
    file.write_bytes(header + marshal.dumps(code))


def edited(folder: Path) -> None:
    file = folder / "dsregress" / "probe" / "border" / "wire.py"
    file.chmod(0o644)
    file.write_bytes(file.read_bytes().replace(b"bytes", b"BYTES", 1))


def replaced_by_a_fifo(folder: Path) -> None:
    file = folder / "dsregress" / "probe" / "border" / "wire.py"
    file.unlink()
    os.mkfifo(file)


def replaced_by_a_link(folder: Path) -> None:
    file = folder / "dsregress" / "probe" / "border" / "wire.py"
    copy = folder.parent / "copy"
    file.rename(copy)
    file.symlink_to(copy)


def folder_moved_away(folder: Path) -> None:
    (folder / "dsregress" / "probe" / "border").rename(folder.parent / "border")
    (folder / "dsregress" / "probe" / "border").symlink_to(folder.parent / "border")


def removed(folder: Path) -> None:
    (folder / "dsregress" / "probe" / "border" / "wire.py").unlink()


def emptied(folder: Path) -> None:
    for entry in folder.iterdir():
        shutil.rmtree(entry)


def module_that_shadows_another(folder: Path) -> None:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("raise SystemExit('shadowed')")


def startup_file(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text("raise SystemExit('at startup')")


def extension_beside_a_module(folder: Path) -> None:
    (folder / "dsregress" / "probe" / "border" / "wire.cpython-311-x86_64-linux-gnu.so").write_bytes(b"")


def link_elsewhere(folder: Path) -> None:
    (folder / "dsregress" / "more").symlink_to("/")


def folder_that_is_a_link(folder: Path) -> None:
    folder.rename(folder.parent / "moved")
    folder.symlink_to(folder.parent / "moved")


CHANGES = [
    (edited, "dsregress/probe/border/wire.py"),
    (replaced_by_a_fifo, "dsregress/probe/border/wire.py"),
    (replaced_by_a_link, "dsregress/probe/border/wire.py"),
    (folder_moved_away, "dsregress/probe/border"),
    (module_that_shadows_another, "torch"),
    (startup_file, "sitecustomize.py"),
    (extension_beside_a_module, "dsregress/probe/border/wire.cpython-311-x86_64-linux-gnu.so"),
    (link_elsewhere, "dsregress/more"),
    (folder_that_is_a_link, ""),
]


@pytest.mark.parametrize(("change", "named"), CHANGES)
def test_what_a_server_changed_in_its_own_copy_is_named(
    tmp_path: Path, scenarios: Path, change: Callable[[Path], None], named: str
) -> None:
    files = staging.probe_files(scenarios)
    folder = staging.copy(files, tmp_path / "server" / "probe")
    assert staging.foreign_entries(folder, files) == []
    change(folder)
    assert staging.names_text(staging.foreign_entries(folder, files)).startswith(named)


def with_what_is_around_it(folder: Path) -> None:
    shutil.rmtree(folder.parent)


@pytest.mark.parametrize(
    ("remove", "named"),
    [
        (removed, "dsregress/probe/border/wire.py"),
        (emptied, "dsregress/__init__.py and"),
        (with_what_is_around_it, "dsregress/"),
    ],
)
def test_what_is_gone_of_a_copy_is_removed_and_not_changed(
    tmp_path: Path, scenarios: Path, remove: Callable[[Path], None], named: str
) -> None:
    files = staging.probe_files(scenarios)
    folder = staging.copy(files, tmp_path / "server" / "probe")
    assert staging.removals(folder, files) == []
    remove(folder)
    assert staging.foreign_entries(folder, files) == []
    assert staging.names_text(staging.removals(folder, files)).startswith(named)


@pytest.mark.parametrize(("change", "named"), CHANGES)
def test_a_copy_that_was_changed_is_restored_and_a_line_says_so(
    tmp_path: Path, scenarios: Path, change: Callable[[Path], None], named: str
) -> None:
    files = staging.probe_files(scenarios)
    folder = staging.stage(files, tmp_path / "probe", silent)
    change(folder)
    notes: list[str] = []
    assert staging.stage(files, tmp_path / "probe", notes.append) == folder
    assert {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()} == files
    assert not any(file.is_symlink() for file in [folder, *folder.rglob("*")])
    (line,) = notes
    assert f"the copy of the probe in {folder} was changed ({named}" in line
    assert line.endswith("); restored")
    staging.stage(files, tmp_path / "probe", silent)


def test_bytecode_in_the_copy_is_never_run(tmp_path: Path, scenarios: Path) -> None:
    files = staging.probe_files(scenarios)
    folder = staging.stage(files, tmp_path / "probe", silent)
    with_bytecode(folder)
    program = [sys.executable, "-c", "import dsregress.probe.border.wire as wire; print(wire.REGULAR_PHASES[0])"]
    hostile = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    assert "hostile bytecode ran" in hostile.stderr
    staging.stage(files, tmp_path / "probe", silent)  # as Python writes bytecode there by itself, no line says so
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "init\n"


def test_the_files_of_the_copy_are_read_only_and_its_folders_can_be_removed(tmp_path: Path, scenarios: Path) -> None:
    folder = staging.stage(staging.probe_files(scenarios), tmp_path / "probe", silent)
    assert {file.stat().st_mode & 0o777 for file in folder.rglob("*.py")} == {0o444}
    shutil.rmtree(folder)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_scenario_that_is_no_file_is_named(scenarios: Path, make: Callable[[str], None]) -> None:
    make(str(scenarios / "two.py"))
    with pytest.raises(UsageError, match="two.py: cannot be read: a .*, not a regular file"):
        staging.probe_files(scenarios)


def test_a_file_that_is_removed_while_the_copy_is_read_is_not_changed(
    tmp_path: Path, scenarios: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = staging.probe_files(scenarios)
    folder = staging.copy(files, tmp_path / "server" / "probe")

    def removed(entry: os.DirEntry[str], content: bytes) -> bool:
        os.remove(entry.path)
        return False

    monkeypatch.setattr(staging, "_holds", removed)
    assert staging.foreign_entries(folder, files) == []
