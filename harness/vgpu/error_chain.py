"""The chain of errors that an error reports: its cause, and so on. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

_Error = TypeVar("_Error", bound=BaseException)


def behind(error: BaseException, kind: type[_Error]) -> _Error | None:
    """Return the error of that kind that an error reports, perhaps in other words; None without one."""
    return next((one for one in behind_one_another(error) if isinstance(one, kind)), None)


def behind_one_another(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, the one that it reports, and so on."""
    seen: set[int] = set()  # a program may have made a circle of them
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
