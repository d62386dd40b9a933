"""Tells failures of the machine: a full disk, a lost network, too little memory. They say nothing about a release.

The rule: a failure that another machine, or this one an hour later, would not have had is the machine's. It is recognized by
the exception's ``errno`` if the exception is available, by the signal that ended a process, and by the text that compilers
and installers print. Memory needs a look around: a request that is refused while the machine has memory to spare is too
large, and the release's; one that is refused for want of memory is not.

A release may cause such a failure itself, by leaking files for example. One run cannot show that, so it is never a verdict
on the release; it is measured again by every run, and no run passes with it.
"""

from __future__ import annotations

import errno
import os
import re
import resource
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from dsregress.probe.border import encoding
from vgpu.json_tables import decoded_entries, decoded_text, decoded_texts, table_beside

DISK_FULL = "the disk is full"
DISK_FAILS = "the disk fails"
READ_ONLY = "the disk is read-only"
NO_TEMPORARY = "no folder for temporary files can be written"
OPEN_FILES = "too many files are open"
PROCESSES = "too many processes or threads run"
FILE_SIZE = "a file is larger than allowed"
MEMORY = "the machine is out of memory"
UNMAPPED = "a library cannot be mapped into memory"
NETWORK = "the network is lost"
BUILD_DOWNLOAD = "a package's build cannot download what it needs"
DAMAGED = "an installed or downloaded file is damaged"
KILLED = "it was killed from outside"
ENGINE = "the container engine is gone"
BUSY = "the machine is too busy"
CLOCK = "the clock is beyond the year 2262"
NO_START = "the environment's Python does not start"
REMOVED = "the run's folder was removed"


class _FaultMarks(NamedTuple):
    """An entry of ``machine.json``."""

    remedy: str
    errors: tuple[str, ...] = ()  #: names of ``errno``
    printed: tuple[str, ...] = ()  #: patterns of what compilers, installers and libraries print
    lost: tuple[str, ...] = ()  #: patterns of what is said of a process that may have ended by it

    def pattern(self) -> re.Pattern[str]:
        """Return the pattern of all that is printed, the numbers of Python's and Rust's errors among it."""
        numbers = "|".join(str(getattr(errno, name)) for name in self.errors)
        by_number = [rf"\[Errno (?:{numbers})\]", rf"\bos error (?:{numbers})\b"] if numbers else []
        return re.compile("|".join((*by_number, *self.printed)))


def _decoded_fault(entry: object) -> _FaultMarks:
    fields = decoded_entries(entry)
    lists = {name: decoded_texts(fields[name]) for name in ("errors", "printed", "lost") if name in fields}
    return _FaultMarks(remedy=decoded_text(fields["remedy"]), **lists)


#: Name -> fault, in the order in which a text is searched for them.
_FAULTS = {name: _decoded_fault(entry) for name, entry in table_beside(__file__).items()}

#: Fault -> remedy.
REMEDIES = {name: fault.remedy for name, fault in _FAULTS.items()}

_BY_ERRNO = {getattr(errno, error): name for name, fault in _FAULTS.items() for error in fault.errors}

_BY_TEXT = tuple((fault.pattern(), name) for name, fault in _FAULTS.items() if fault.printed)

_LOST_PROCESS = re.compile("|".join(_FAULTS[MEMORY].lost))

#: Memory is short below this share of the machine's.
_SPARE_MEMORY = 0.05

#: A disk with less than this is full: files that did not fit are removed before anyone can look.
_SPARE_DISK_BYTES = 1 << 20

_LONGEST_MESSAGE = 1 << 20

#: Only the end of a longer text is searched: the error is there.
_LONGEST_TEXT = 20_000


def of_error(error: BaseException) -> str:
    """Return the fault of the machine that an exception, or one that it was raised from, reports; empty without one.
    What we refuse a program, as the error says by its ``refuses``, is no fault: a network is not lost then, whatever a
    library reports."""
    chain = list(_with_causes(error))
    refused = {getattr(each, "refuses", "") for each in chain}
    for each in chain:
        if (fault := _of_one(each)) and fault not in refused:
            return fault
    return ""


def _of_one(error: BaseException) -> str:
    if type(error).__name__ == "OutOfMemoryError":  # torch's, of a device
        return ""
    message = encoding.bounded_text(error, _LONGEST_MESSAGE)  # the framework's own class may not print it
    if host_refuses_memory(error, message) or _lost_its_exception(error, message):
        return MEMORY if memory_is_short() else ""
    if isinstance(error, OverflowError) and "PyTime_t" in message:
        return CLOCK
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _BY_ERRNO[error.errno]
    if isinstance(error, subprocess.CalledProcessError):
        printed = (text for text in (error.stderr, error.stdout) if text)
        lines = [text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in printed]
        return in_message("\n".join([*lines, message]))
    return in_message(message)


def in_message(text: str) -> str:
    """Return the fault of the machine that an error message reports; empty without one."""
    return next((fault for pattern, fault in _BY_TEXT if pattern.search(text[-_LONGEST_TEXT:])), "")


def in_log(text: str) -> str:
    """Return the fault of the machine that a program's output before its failure reports, as `in_message` does, except for
    the network: the message may be about one attempt of several."""
    return next(
        (fault for pattern, fault in _BY_TEXT if fault != NETWORK and pattern.search(text[-_LONGEST_TEXT:])), ""
    )


def of_death(how: str, log: str, folder: str | os.PathLike[str]) -> str:
    """Return the fault of the machine that ended a process without a message; empty without one.

    ``how`` is ``killed by SIGBUS`` or ``exit code 3``; ``log`` is the end of its output, ``folder`` the folder that it
    writes to.
    """
    killed = re.search(r"killed by (SIG\w+)", how)
    if killed is None or killed[1] == "SIGABRT":  # an abort comes with a reason in the log
        return in_message(how) or in_log(log) or (DISK_FULL if disk_is_full(folder) else "")
    if killed[1] == "SIGBUS" and (disk_is_full(folder) or disk_is_full("/dev/shm")):
        return DISK_FULL  # a page of a mapped file has no room
    return in_message(how)


def of_lost_process(message: str, kills_before: int) -> str:
    """Return the fault of the machine that ended a process whose loss an error reports, such as a data loader's worker;
    empty without one. ``kills_before`` is the `kernel_out_of_memory_kills` when what failed began."""
    is_lost = _LOST_PROCESS.search(message[-_LONGEST_TEXT:]) is not None
    return MEMORY if is_lost and kernel_out_of_memory_kills() > kills_before else ""


def disk_is_full(folder: str | os.PathLike[str]) -> bool:
    """Return True if the disk of a folder has less than `_SPARE_DISK_BYTES`, or no inodes, available; False if that is
    unknown."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _SPARE_DISK_BYTES or (disk.f_files > 0 and disk.f_favail == 0)


def memory_is_short() -> bool:
    """Return True if this machine has no memory to spare now, or a limit keeps this process from more of it."""
    if any(
        resource.getrlimit(limit)[0] != resource.RLIM_INFINITY for limit in (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    ):
        return True
    try:
        with open("/proc/meminfo") as lines:
            sizes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return sizes["MemAvailable"] < _SPARE_MEMORY * sizes["MemTotal"]
    except (OSError, KeyError, ValueError, IndexError):
        return False


def kernel_out_of_memory_kills() -> int:
    """Return the number of processes that the kernel has killed for memory since boot; 0 if it does not report that."""
    try:
        with open("/proc/vmstat") as lines:
            for line in lines:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def host_refuses_memory(error: BaseException, message: str) -> bool:
    """Return True if Python or torch's allocator of the host could not get memory."""
    return isinstance(error, MemoryError) or "can't allocate memory" in message or "not enough memory" in message


def _lost_its_exception(error: BaseException, message: str) -> bool:
    """Return whether C code failed without saying why, as much of it does that gets no memory."""
    return isinstance(error, SystemError) and bool(
        re.search(r"without (?:exception set|setting an exception)", message)
    )


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, and those that it was raised from or while handling, outwards from the last."""
    seen: set[int] = set()
    left: BaseException | None = error
    while left is not None and id(left) not in seen:
        seen.add(id(left))
        yield left
        yield from getattr(left, "exceptions", ())  # of a group
        left = left.__cause__ or (None if left.__suppress_context__ else left.__context__)
