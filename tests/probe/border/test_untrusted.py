"""Files that others wrote: nothing but a regular file of a sensible size is read, and nothing waits."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dsregress.probe.border.untrusted import read_regular, read_tail
from vgpu.whole_files import write_whole


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_a_file(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("secret")
    path.symlink_to(other)


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def listening_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket has at most 108 bytes
        try:
            listening.bind(path.name)
        finally:
            os.chdir(here)


def sparse_terabyte(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(1 << 40)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (fifo, "a FIFO, not a regular file"),
        (folder, "a folder, not a regular file"),
        (link_to_zeros, "a link, not a regular file"),
        (link_to_a_file, "a link, not a regular file"),
        (link_to_itself, "a link, not a regular file"),
        (listening_socket, "a socket, not a regular file"),
        (sparse_terabyte, "larger than 1 MiB"),
        (lambda path: None, "No such file or directory"),
    ],
)
def test_what_is_no_regular_file_of_a_sensible_size_says_what_it_is(tmp_path: Path, make: object, why: str) -> None:
    file = tmp_path / "explanation.json"
    make(file)  # type: ignore[operator]
    with pytest.raises(OSError, match=f"{why}: "):
        read_regular(file, 1 << 20)


def test_a_device_is_not_read_however_it_is_named() -> None:
    for follow in (False, True):
        with pytest.raises(OSError, match="a device, not a regular file"):
            read_regular("/dev/zero", 10, follow_links=follow)


def test_a_path_with_a_nul_is_an_error_like_others() -> None:
    with pytest.raises(OSError, match="no path"):
        read_regular("a\0b", 10)


def test_a_link_that_the_user_names_is_followed(tmp_path: Path) -> None:
    link_to_a_file(tmp_path / "mine")
    assert read_regular(tmp_path / "mine", 10, follow_links=True) == b"secret"


@pytest.mark.parametrize("size", [0, 1, 70_000, 1 << 20])
def test_a_regular_file_is_read_to_its_end(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    assert read_regular(tmp_path / "file", 1 << 20) == content


def test_a_file_without_a_size_is_read_to_its_end_or_its_limit() -> None:
    whole = Path("/proc/self/status").read_bytes()
    assert read_regular("/proc/self/status", 1 << 20).splitlines()[0] == whole.splitlines()[0]
    with pytest.raises(OSError, match="larger than"):
        read_regular("/proc/self/status", 10)


def test_of_a_log_only_its_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stream:
        stream.truncate(1 << 40)
        stream.seek(0, os.SEEK_END)
        stream.write(b"the end")
    assert read_tail(log, 7) == b"the end"
    assert read_tail(log, 1 << 10).endswith(b"\0the end")
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(OSError, match="a FIFO"):
        read_tail(log, 7)


@pytest.mark.parametrize("make", [fifo, link_to_a_file, link_to_itself])
def test_what_lies_where_a_file_is_written_is_replaced_and_not_opened(tmp_path: Path, make: object) -> None:
    file = tmp_path / "record.json"
    make(file)  # type: ignore[operator]
    write_whole(file, "{}")
    assert not file.is_symlink()
    assert file.read_text() == "{}"
    assert {left.name for left in tmp_path.iterdir()} <= {"record.json", "other"}
    if (tmp_path / "other").exists():
        assert (tmp_path / "other").read_text() == "secret"
