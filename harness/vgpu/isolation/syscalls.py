"""System calls of Linux that Python 3.10 lacks. Each raises OSError with its name. x86-64, as the project needs."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000

MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2

_PIVOT_ROOT, _MOUNT_SETATTR = 155, 442

_MOUNT_ATTR_RDONLY, _AT_RECURSIVE, _AT_FDCWD = 1, 0x8000, -100

_libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    """Return the result of a call. Raise OSError if it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def syscall(number: int, *arguments: object) -> int:
    """Make a system call by its number."""
    return int(_libc.syscall(ctypes.c_long(number), *arguments))


def prctl(option: int, *arguments: int) -> None:
    """Call prctl(2)."""
    padded = (*arguments, 0, 0, 0, 0)[:4]
    checked(_libc.prctl(option, *(ctypes.c_ulong(value) for value in padded)), f"prctl {option}")


def unshare(flags: int) -> None:
    """Leave the namespaces of the caller for new ones."""
    checked(_libc.unshare(flags), f"unshare {flags:#x}")


def setns(handle: int, kind: int) -> None:
    """Enter the namespace of an open handle."""
    checked(_libc.setns(handle, kind), f"setns {kind:#x}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount ``source`` at ``target``."""
    words = (os.fsencode(word) if word else None for word in (source, target, kind))
    checked(
        _libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(options) if options else None),
        f"mount {kind or source} at {target}",
    )


def make_read_only(target: str) -> None:
    """Make a mount and all below it read-only."""

    class MountAttributes(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_namespace")]

    attributes = MountAttributes(set=_MOUNT_ATTR_RDONLY)
    path = ctypes.c_char_p(os.fsencode(target))
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    checked(
        syscall(_MOUNT_SETATTR, ctypes.c_int(_AT_FDCWD), path, _AT_RECURSIVE, ctypes.byref(attributes), size),
        f"mount_setattr {target}",
    )


def pivot_root(root: str, old: str) -> None:
    """Make ``root`` the root of this process's mount namespace, with the old one at ``old``."""
    checked(
        syscall(_PIVOT_ROOT, ctypes.c_char_p(os.fsencode(root)), ctypes.c_char_p(os.fsencode(old))),
        f"pivot_root {root}",
    )


def unmount(target: str) -> None:
    """Detach a mount and all below it."""
    checked(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")
