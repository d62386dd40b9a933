"""Ways in which a program can change the files of its user, by their own path and through links. Standard library only."""

# ruff: noqa: SIM115 (as carelessly as programs do it)

from __future__ import annotations

import ctypes
import fcntl
import io
import mmap
import os
import pathlib
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

#: By name: what is done to a folder that `prepare` has made.
WAYS: dict[str, Callable[[Path], object]] = {
    "open w": lambda at: (at / "file").open("w").write("theirs"),
    "open a": lambda at: (at / "file").open("a").write("theirs"),
    "open r+": lambda at: (at / "file").open("r+").write("theirs"),
    "open bytes path": lambda at: open(os.fsencode(at / "file"), "wb").write(b"theirs"),
    "FileIO bytes path": lambda at: io.FileIO(os.fsencode(at / "file"), "w").write(b"theirs"),
    "os.open O_TRUNC": lambda at: os.close(os.open(at / "file", os.O_WRONLY | os.O_TRUNC)),
    "os.open read-only O_TRUNC": lambda at: os.close(os.open(at / "file", os.O_RDONLY | os.O_TRUNC)),
    "os.open in a folder": lambda at: os.close(
        os.open("file", os.O_RDWR | os.O_TRUNC, dir_fd=os.open(at, os.O_RDONLY))
    ),
    "write_text": lambda at: (at / "file").write_text("theirs"),
    "os.truncate": lambda at: os.truncate(at / "file", 1),
    "mmap": lambda at: mmap.mmap(os.open(at / "file", os.O_RDWR), 0).__setitem__(0, 88),
    "libc fopen": lambda at: ctypes.CDLL(None).fopen(os.fsencode(at / "file"), b"w"),
    "libc truncate": lambda at: ctypes.CDLL(None).truncate(os.fsencode(at / "file"), ctypes.c_long(1)),
    "sqlite3": lambda at: sqlite3.connect(at / "data.db").execute("create table theirs (x)").connection.commit(),
    "zipfile": lambda at: zipfile.ZipFile(at / "file", "w").writestr("theirs", "x"),
    "shutil.copy": lambda at: shutil.copy(__file__, at / "file"),
    "shutil.move over": lambda at: shutil.move(at / "other", at / "file"),
    "shell >": lambda at: shell(at, "echo theirs > file"),
    "shell >>": lambda at: shell(at, "echo theirs >> file"),
    "shell cp": lambda at: shell(at, "cp other file"),
    "shell mv": lambda at: shell(at, "mv other file"),
    "shell rm -rf": lambda at: shell(at, "rm -rf folder"),
    "shell dd": lambda at: shell(at, "dd if=/dev/zero of=file bs=1 count=4"),
    "shell sed -i": lambda at: shell(at, "sed -i s/mine/theirs/ file"),
    "shell tee": lambda at: shell(at, "echo theirs | tee file"),
    "shell chmod": lambda at: shell(at, "chmod 777 file"),
    "shell touch": lambda at: shell(at, "touch -d 2001-01-01 file"),
    "shell truncate": lambda at: shell(at, "truncate -s 1 file"),
    "another interpreter": lambda at: subprocess.run(
        [sys.executable, "-c", f"open({os.fspath(at / 'file')!r}, 'w').write('theirs')"],
        check=True,
        capture_output=True,
    ),
    "unlink": lambda at: (at / "file").unlink(),
    "remove a link": lambda at: (at / "link").unlink(),
    "rmtree": lambda at: shutil.rmtree(at / "folder"),
    "rmdir": lambda at: (at / "empty").rmdir(),
    "rename": lambda at: (at / "file").rename(at / "renamed"),
    "replace": lambda at: (at / "other").replace(at / "file"),
    "rename a folder": lambda at: (at / "folder").rename(at / "renamed"),
    "mkdir": lambda at: (at / "new").mkdir(),
    "touch a new file": lambda at: (at / "new").touch(),
    "symlink": lambda at: (at / "new").symlink_to("file"),
    "hard link": lambda at: os.link(at / "file", at / "new"),
    "mkfifo": lambda at: os.mkfifo(at / "new"),
    "unix socket": lambda at: socket.socket(socket.AF_UNIX).bind(os.path.relpath(at / "s")),
    "temporary file": lambda at: tempfile.NamedTemporaryFile(dir=at, delete=False),
    "chmod": lambda at: (at / "file").chmod(0o777),
    "fchmod": lambda at: os.fchmod(os.open(at / "file", os.O_RDONLY), 0o777),
    "chmod of a folder": lambda at: (at / "folder").chmod(0o700),
    "chown": lambda at: os.chown(at / "file", os.getuid(), os.getgid()),
    "utime": lambda at: os.utime(at / "file", (1, 1)),
    "setxattr": lambda at: os.setxattr(at / "file", "user.theirs", b"x"),
    "file attributes": lambda at: fcntl.ioctl(os.open(at / "file", os.O_RDONLY), 0x40086602, struct.pack("l", 0x80)),
    "allocate": lambda at: os.posix_fallocate(os.open(at / "file", os.O_RDWR), 0, 4096),
    "through a link to a file": lambda at: (at / "link").write_text("theirs"),
    "through a link to a folder": lambda at: (at / "linked" / "inner").write_text("theirs"),
    "rmtree in a linked folder": lambda at: shutil.rmtree(at / "linked" / "deep"),
    "through /proc/self/root": lambda at: pathlib.Path(f"/proc/self/root{at}/file").write_text("theirs"),
    "through the parent's root": lambda at: pathlib.Path(f"/proc/{os.getppid()}/root{at}/file").write_text("theirs"),
    "through the parent's folder": lambda at: pathlib.Path(
        f"/proc/{os.getppid()}/cwd/{'../' * 20}{at}/file"
    ).write_text("theirs"),
    "from a forked child": lambda at: in_a_child(lambda: (at / "file").write_text("theirs")),
    "from a session of its own": lambda at: subprocess.run(
        ["setsid", "sh", "-c", f"echo theirs > '{at}/file'"], check=True
    ),
}


def shell(at: Path, command: str) -> None:
    subprocess.run(["sh", "-c", command], cwd=at, check=True, capture_output=True)


def in_a_child(do: Callable[[], object]) -> None:
    child = os.fork()
    if not child:
        try:
            do()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def prepare(folder: Path) -> None:
    """Make a folder for each way."""
    for way in WAYS:
        at = folder / way.replace("/", " ")
        (at / "folder").mkdir(parents=True)
        (at / "elsewhere" / "deep").mkdir(parents=True)
        (at / "empty").mkdir()
        for name in ("file", "other", "folder/one", "folder/two", "elsewhere/inner", "elsewhere/deep/most"):
            (at / name).write_text(f"mine {name}")
        (at / "link").symlink_to(at / "file")
        (at / "linked").symlink_to(at / "elsewhere")
        sqlite3.connect(at / "data.db").execute("create table mine (x)").connection.commit()


def go(folder: Path) -> list[str]:
    """Go all ways; return those that raised."""
    raised = []
    for way, do in WAYS.items():
        try:
            do(folder / way.replace("/", " "))
        except Exception:
            raised.append(way)
    return raised


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return all that can be known of each path below a folder."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() else path.is_symlink() and os.readlink(path)
        attributes = [] if path.is_symlink() else os.listxattr(path)
        found[str(path.relative_to(folder))] = (
            *(about.st_mode, about.st_uid, about.st_gid, about.st_nlink, about.st_mtime_ns, about.st_ino),
            *(content, tuple(attributes)),
        )
    return found
