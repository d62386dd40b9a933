from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.nesting import nested
from vgpu.trees import remove_tree


def test_a_folder_is_removed_with_three_thousand_nested_folders(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    nested(folder, 3_000)
    (folder / "empty").mkdir()
    (folder / "log").write_text("more")
    remove_tree(folder)
    assert os.listdir(tmp_path) == []


def test_what_a_link_leads_to_stays(tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "run"
    for made in (kept, folder):
        made.mkdir()
    (kept / "file").write_text("the user's")
    (folder / "folder").symlink_to(kept)
    (folder / "file").symlink_to(kept / "file")
    remove_tree(folder)
    (tmp_path / "link").symlink_to(kept)
    remove_tree(tmp_path / "link")
    assert sorted(os.listdir(tmp_path)) == ["kept", "link"]
    assert (kept / "file").read_text() == "the user's"


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    remove_tree(tmp_path / "absent" / "run")


def test_what_cannot_be_removed_stays_and_the_rest_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unlink = os.unlink

    def refuses(name: str, *, dir_fd: int) -> None:
        if name == "busy":
            raise PermissionError(name)
        unlink(name, dir_fd=dir_fd)

    for place in ("a", "b"):
        (tmp_path / "run" / place / "below").mkdir(parents=True)
        (tmp_path / "run" / place / "file").touch()
    (tmp_path / "run" / "a" / "busy").touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuses)
        remove_tree(tmp_path / "run")
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["run", "run/a", "run/a/busy"]


def test_the_way_up_is_lost_where_a_folder_is_moved_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "run"
    (folder / "moved" / "below").mkdir(parents=True)
    (elsewhere / "moved").mkdir(parents=True)
    scandir = os.scandir
    scanned: list[int] = []

    def moves(descriptor: int) -> object:
        scanned.append(descriptor)
        if len(scanned) == 3:  # it is in below
            shutil.move(folder / "moved" / "below", elsewhere / "below")
        return scandir(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", moves)
        remove_tree(folder)
    assert sorted(os.listdir(elsewhere)) == ["below", "moved"]
