"""What a program asks for and this machine does not have: one line that names the place and the way out."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import TypeVar

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LIBRARIES = tuple(
    os.path.abspath(path) + os.sep
    for path in {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


_Error = TypeVar("_Error", bound=BaseException)


class NotHere(RuntimeError):
    """A model or data set that is neither on this machine nor known.

    Neither an OSError nor a ValueError: libraries take those for a file that may be missing, and go on without it.
    """

    says_where = True

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{place()}: {what}: {remedy}")


def behind(error: BaseException, kind: type[_Error]) -> _Error | None:
    """The error of that kind that an error reports, perhaps in other words; None where there is none."""
    seen: set[int] = set()  # a program may have made a circle of them
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, kind):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def place() -> str:
    """``train.py:12``: the innermost statement of the program itself, not of a library."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if os.path.isfile(file) and not os.path.abspath(file).startswith((*_LIBRARIES, _OURS + os.sep)):
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "an unknown place"
