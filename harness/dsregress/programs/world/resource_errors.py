"""Errors of a program that needs a resource which this machine lacks: one line with the place and the remedy."""

from __future__ import annotations

import errno
import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from typing import ClassVar

from dsregress.probe.border.own_code import FOLDERS
from vgpu.error_chain import behind_one_another

#: Folders of installed packages and of Python's own modules.
LIBRARIES = tuple(
    os.path.abspath(path) + os.sep
    for path in {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


class NotHere(RuntimeError):
    """A model or data set that is neither on this machine nor known.

    Neither an OSError nor a ValueError: libraries take those for an optional file that is missing, and continue. A program
    that catches every error continues as well, and may fail later without a word of it: the lines are kept in ``said``.
    """

    says_where = True
    says_what_to_do = True
    said: ClassVar[list[str]] = []  #: of all in this process; the errors themselves would hold what their frames hold

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{program_place()}: {what}: {remedy}")
        self.said.append(str(self))


def is_absence(error: BaseException) -> bool:
    """Return True if a requested resource does not exist: a missing file, or one that only a network has. A resource
    that exists but is refused by the machine or its user (EMFILE, EACCES, ENOSPC) is not absent, even if a library
    reports it so."""
    chain = [one for one in behind_one_another(error) if isinstance(one, OSError)]
    refusals = (one for one in chain if one.errno not in (None, errno.ENOENT))
    return next(refusals, None) is None and any(isinstance(one, (FileNotFoundError, ConnectionError)) for one in chain)


def program_place() -> str:
    """Return the innermost statement of the program itself, not of a library, as ``train.py:12``."""
    return _innermost((frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(sys._getframe(1)))


def place_of(error: BaseException) -> str:
    """Return the place (see `program_place`) of the statement that raised an error."""
    return _innermost(_lines_behind(error))


def statement_of(error: BaseException) -> str:
    """Return the first line of the program's own statement that raised an error; empty if none did."""
    place = innermost_place(_lines_behind(error))
    return "" if place is None else linecache.getline(*place)


def _lines_behind(error: BaseException) -> list[tuple[str, int]]:
    return [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)][::-1]


def _innermost(lines: Iterable[tuple[str, int]]) -> str:
    place = innermost_place(lines)
    return "an unknown place" if place is None else f"{os.path.basename(place[0])}:{place[1]}"


def innermost_place(lines: Iterable[tuple[str, int]]) -> tuple[str, int] | None:
    """Return the first of these places, in files, that is the program's own; None if none is."""
    for file, line in lines:
        if os.path.isfile(file) and not os.path.abspath(file).startswith((*LIBRARIES, *FOLDERS)):
            return file, line
    return None


def is_in_the_program(error: BaseException, *, through: Sequence[str]) -> bool:
    """Return True if the program's own code raised an error, or packages ``through`` which its code is called did; False
    if a library that they called raised it. In a process that ``datasets`` started, the error's own traceback is
    text."""
    lines = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    lines += re.findall(r'^ +File "([^"]+)", line', str(error.__cause__ or ""), re.MULTILINE)
    packages = tuple(f"{os.sep}site-packages{os.sep}{name}{os.sep}" for name in through)
    files = [file for file in lines if os.path.isfile(file) and not any(name in file for name in packages)]
    return bool(files) and not os.path.abspath(files[-1]).startswith((*LIBRARIES, *FOLDERS))
