"""What a shielded process does to its user's files, in each of the ways that a program has."""

from __future__ import annotations

import errno
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.forks import in_a_fork
from tests.paths import SOURCE
from tests.vgpu.isolation import ways
from vgpu import isolation
from vgpu.isolation import landlock, layout, mount_view

here = pytest.mark.parametrize("kind", [isolation.VIEW, isolation.LANDLOCK])

#: What overlays cannot do, and what needs a file system that has it.
RAISE_IN_A_VIEW = {"rename a folder", "file attributes"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = tmp_path / "runs" / "run"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    ways.prepare(made)
    return made


@pytest.fixture(autouse=True)
def allowed(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """This machine can do what the test is about."""
    kind = request.node.callspec.params.get("kind", "") if hasattr(request.node, "callspec") else isolation.VIEW
    if kind == isolation.VIEW and isolation.strongest(tmp_path) != isolation.VIEW:
        pytest.skip("this kernel, or this container, allows no view of one's own")
    if kind == isolation.LANDLOCK and not landlock.landlock_version():
        pytest.skip("this kernel has no Landlock")


def shielded(run: Path, do: Callable[[], object]) -> str:
    """What a process returns, as text, that has joined the shield of a run; an error's words."""

    def answer() -> str:
        try:
            os.chdir(run)
            isolation.join_shield(run)
            return str(do())
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    return in_a_fork(answer)


@pytest.fixture
def as_no_root(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Return what a program of Python prints, in a folder of its own, of a user without privileges."""
    options: dict[str, Any] = {"cwd": SOURCE, "text": True, "capture_output": True, "check": True}
    python, folder = sys.executable, tmp_path
    if not os.geteuid():
        nobody = pwd.getpwnam("nobody")
        python = "/usr/bin/python3"  # ours may lie where only root may look
        if not Path(python).exists():
            pytest.skip(f"no {python}")
        folder = Path(tempfile.mkdtemp())
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        options |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    yield lambda program: subprocess.run([python, "-c", program, str(folder)], **options).stdout
    shutil.rmtree(folder)


def test_a_hidden_process_of_a_user_without_privileges_finds_the_shield_that_others_find(
    as_no_root: Callable[[str], str],
) -> None:
    program = (
        "import pathlib, sys; from vgpu import isolation; from dsregress.probe.border import processes; {}; "
        "print(isolation.strongest(pathlib.Path(sys.argv[1])))"
    )
    assert as_no_root(program.format("processes.hide()")) == as_no_root(program.format("pass"))


@here
def test_no_way_changes_a_file_of_the_users(kind: str, run: Path, mine: Path) -> None:
    before = ways.snapshot(mine)
    assert isolation.make_shield(run, [], (kind,)) == kind
    raised = json.loads(shielded(run, lambda: json.dumps(ways.go(mine))))
    if kind == isolation.VIEW:  # and a program goes its ways there
        assert {way for way in raised if "parent's" not in way} <= RAISE_IN_A_VIEW
    assert ways.snapshot(mine) == before


def test_without_a_shield_most_ways_change_something(run: Path, mine: Path) -> None:
    """Else the tests above would show nothing."""
    before = ways.snapshot(mine)
    assert isolation.make_shield(run, [], (isolation.NONE,)) == isolation.NONE
    shielded(run, lambda: ways.go(mine))
    after = ways.snapshot(mine)
    changed = {path.partition("/")[0] for path in {*before, *after} if before.get(path) != after.get(path)}
    assert {way.replace("/", " ") for way in ways.WAYS} - changed <= {"chown", "file attributes"}


@pytest.mark.parametrize("refused", ["unshare", "mount"])
def test_without_a_view_on_this_machine_another_shield_is_made_at_once(
    run: Path, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "not here")

    monkeypatch.setattr(f"vgpu.isolation.syscalls.{refused}", refuse)
    assert in_a_fork(lambda: isolation.make_shield(run, [], (isolation.VIEW, isolation.NONE))) == isolation.NONE


@here
def test_the_folders_of_the_run_are_written_for_good(kind: str, run: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    isolation.make_shield(run, [str(shared), ""], (kind,))
    assert shielded(run, lambda: [(run / "a").write_text("1"), (shared / "b").write_text("2")]) == "[1, 1]"
    assert ((run / "a").read_text(), (shared / "b").read_text()) == ("1", "2")


@here
def test_nothing_is_made_beside_the_devices(kind: str, run: Path) -> None:
    isolation.make_shield(run, [], (kind,))
    made = Path("/dev/dsregress-test")
    assert shielded(run, made.mkdir).startswith(("PermissionError", "OSError"))
    assert not made.exists()


@here
def test_devices_and_temporary_files_are_there(kind: str, run: Path) -> None:
    isolation.make_shield(run, [], (kind,))

    def use() -> str:
        import tempfile

        with (
            open(os.devnull, "w") as nothing,
            tempfile.TemporaryFile() as some,
            tempfile.TemporaryDirectory() as folder,
        ):
            nothing.write("x")
            some.write(b"x")
            Path(folder, "x").touch()
            Path("/dev/shm/dsregress-test").write_text("x")
            Path("/dev/shm/dsregress-test").unlink()
        return f"{os.getuid()} {os.getcwd()}"

    assert shielded(run, use) == f"{os.getuid()} {run}"


def test_what_a_view_changed_is_told_and_two_runs_do_not_see_each_others(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "runs" / "1", tmp_path / "runs" / "2"
    at = mine / "rmtree"
    for run in (first, second):
        run.mkdir(parents=True)
        assert isolation.make_shield(run, []) == isolation.VIEW

    def train() -> str:
        resumed = (at / "file").read_text()
        (at / "file").write_text("a step further")
        (at / "other").unlink()
        (at / "new" / "deep").mkdir(parents=True)
        (at / "new" / "deep" / "file").touch()
        return resumed

    assert shielded(first, train) == shielded(second, train) == "mine file"
    assert shielded(first, lambda: (at / "file").read_text()) == "a step further"  # another rank of the same run
    assert isolation.changed_outside(first) == [str(at / name) for name in ("file", "other")]
    monkeypatch.setattr(isolation, "_temporary_folders", lambda: ())  # where the tests are, new files count for nothing
    assert isolation.changed_outside(first) == [str(at / name) for name in ("file", "new", "other")]
    isolation.discard(first)
    assert not (first / "changed").exists()


def test_a_path_that_landlock_refuses_is_told(run: Path, mine: Path) -> None:
    if not landlock.landlock_version():
        pytest.skip("this kernel has no Landlock")
    isolation.make_shield(run, [], (isolation.LANDLOCK,))
    file = mine / "chmod" / "file"

    def refused() -> list[str]:
        try:
            file.write_text("theirs")
        except OSError as error:
            return [
                isolation.refused_path(run, error),
                isolation.refused_path(run, FileNotFoundError(2, "", str(file))),
            ]
        return []

    assert shielded(run, refused) == str([str(file), ""])


def test_a_path_that_a_view_holds_read_only_is_told(run: Path) -> None:
    isolation.make_shield(run, [], (isolation.VIEW,))
    file = "/dev/dsregress-new"

    def refused() -> list[str]:
        try:
            open(file, "w").close()
        except OSError as error:
            within = OSError(error.errno, "", str(run / "file"))  # there, the disk itself is read-only
            return [isolation.refused_path(run, error), isolation.refused_path(run, within)]
        return []

    assert shielded(run, refused) == str([file, ""])


def test_where_the_folder_of_a_run_holds_no_overlays_changes_are_kept_in_memory(
    run: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mount_view, "_keeps_overlays", lambda folder: False)
    before = ways.snapshot(mine)
    isolation.make_shield(run, [], (isolation.VIEW,))
    shielded(run, lambda: (mine / "unlink" / "file").unlink())
    assert isolation.changed_outside(run) == [str(mine / "unlink" / "file")]
    assert ways.snapshot(mine) == before


def test_what_a_view_changed_is_told_although_a_folder_was_gone_when_it_was_made(
    run: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = layout.plan_view
    gone = layout.Step("/gone-meanwhile", layout.How.OVERLAY)
    monkeypatch.setattr(layout, "plan_view", lambda mounts: [*plan(mounts), gone])
    isolation.make_shield(run, [], (isolation.VIEW,))
    file = mine / "unlink" / "file"
    shielded(run, lambda: file.write_text("theirs"))
    assert isolation.changed_outside(run) == [str(file)]
    assert isolation.written_texts(run, str(mine), 100) == {str(file): "theirs"}
