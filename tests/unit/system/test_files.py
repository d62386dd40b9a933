"""Files that are whole or absent, and of which several writers make one."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from dsregress.system.files import create_atomically, new_folder, write_atomically


def test_what_is_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    create_atomically(file, b"first")
    with pytest.raises(FileExistsError):
        create_atomically(file, b"second")
    assert file.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_what_is_there_stays_on_a_file_system_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.link", refuse)
    test_what_is_there_stays(tmp_path)


@pytest.mark.parametrize("links", [True, False])
def test_of_many_writers_at_once_one_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    if not links:

        def refuse(*arguments: object) -> None:
            raise OSError(errno.EPERM, "no hard links here")

        monkeypatch.setattr("os.link", refuse)
    file = tmp_path / "result.json"
    together = threading.Barrier(16, timeout=60)
    written: list[bytes] = []

    def write(number: int) -> None:
        content = b"%d" % number * 10_000
        together.wait()
        try:
            create_atomically(file, content)
        except FileExistsError:
            return
        written.append(content)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert written == [file.read_bytes()]
    assert list(tmp_path.iterdir()) == [file]


def test_what_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    for write in (write_atomically, create_atomically):
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path / "result.json", b"content")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("umask", "file_mode", "folder_mode"), [(0o077, 0o600, 0o700), (0o027, 0o640, 0o750), (0o022, 0o644, 0o755)]
)
def test_the_users_umask_decides_who_reads_a_new_file(
    tmp_path: Path, umask: int, file_mode: int, folder_mode: int
) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "written", b"")
        create_atomically(tmp_path / "created", b"")
        with new_folder(tmp_path / "folder"):
            pass
        write_atomically(tmp_path / "private", b"", private=True)
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {"written": file_mode, "created": file_mode, "folder": folder_mode, "private": 0o600}
