"""The shield if no view can be made: the kernel refuses a process all writes but those in named folders (Landlock, Linux
5.13 and later).

Landlock does not cover modes, owners and times. So calls that change them succeed and do nothing (`ignore_metadata`), by
a filter of system calls (seccomp(2)).

The numbers are those of linux/landlock.h, linux/seccomp.h and of the system calls of x86-64.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence

from vgpu.isolation import syscalls

#: Devices and the kernel's own files, which are written, and neither made nor removed.
_DEVICES = ("/dev", "/proc")
#: Of all processes, which find one another there.
_SHARED_MEMORY = "/dev/shm"

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PATH_BENEATH = 1

#: Rights that change something: write to files, remove files and folders, make entries of each kind.
_CHANGES = 1 << 1 | sum(1 << bit for bit in range(4, 13))
_REPARENT, _TRUNCATE = 1 << 13, 1 << 14
#: First versions that have these two rights.
_REPARENT_VERSION, _TRUNCATE_VERSION = 2, 3
#: Of these, what is done to a file that exists.
_OF_FILES = 1 << 1 | _TRUNCATE

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER = 22, 38, 2
_RETURN_ERROR, _ALLOW = 0x00050000, 0x7FFF0000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_X86_64 = 0xC000003E

#: chmod, chown, utime and xattr, in each of their forms.
_METADATA = (90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452, 463, 466, 469)
_TRUNCATE_CALL = 76


def landlock_version() -> int:
    """Return the version of Landlock that this kernel has, 0 if it has none."""
    try:
        return syscalls.checked(syscalls.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION), "landlock")
    except OSError:
        return 0


def restrict(writable: Sequence[str]) -> None:
    """Let this process, and what it starts, write below these folders and to devices alone. Cannot be undone. Raise OSError
    if the kernel refuses."""
    here = landlock_version()
    rights = _CHANGES | (here >= _REPARENT_VERSION) * _REPARENT | (here >= _TRUNCATE_VERSION) * _TRUNCATE
    handled = ctypes.create_string_buffer(struct.pack("<Q", rights), 8)
    ruleset = syscalls.checked(syscalls.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(8), 0), "landlock")
    try:
        for folder in (*writable, _SHARED_MEMORY):
            _allow(ruleset, folder, rights)
        for folder in _DEVICES:
            _allow(ruleset, folder, rights & _OF_FILES)
        syscalls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
        syscalls.checked(syscalls.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, folder: str, rights: int) -> None:
    """Add a rule for a folder, if there is one."""
    if not os.path.isdir(folder):
        return
    handle = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("<Qi", rights, handle)
        syscalls.checked(
            syscalls.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0),
            f"landlock_add_rule {folder}",
        )
    finally:
        os.close(handle)


def ignore_metadata() -> None:
    """Let this process, and what it starts, change no mode, owner, time or attribute of any file: such calls do nothing
    and succeed. truncate(2) is refused on kernels whose Landlock does not cover it. Cannot be undone. Raise OSError
    if the kernel refuses the filter."""
    if platform.machine() != "x86_64":
        return
    answers = dict.fromkeys(_METADATA, 0)
    if landlock_version() < _TRUNCATE_VERSION:
        answers[_TRUNCATE_CALL] = errno.EACCES
    program = [_instruction(_LOAD, 4), _instruction(_EQUAL, _X86_64, 1, 0), _instruction(_RETURN, _ALLOW)]
    program.append(_instruction(_LOAD, 0))
    for number, error in answers.items():
        program += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, _RETURN_ERROR | error)]
    program.append(_instruction(_RETURN, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(program))

    class FilterProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    filled = FilterProgram(len(program), ctypes.addressof(code))
    syscalls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    syscalls.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.addressof(filled))


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return an instruction of classic BPF."""
    return struct.pack("<HBBI", code, if_true, if_false, value)
