"""Obstacles in the place of a file or folder of ours: freeing space would not help."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TypeVar

from dsregress.errors import HarnessError

_Error = TypeVar("_Error", bound=HarnessError)

#: Errors if a folder cannot be made, or entered, since something else has its name.
_IN_THE_WAY = frozenset((errno.EEXIST, errno.ENOTDIR, errno.ENOENT, errno.ELOOP))


def obstacle_error(kind: type[_Error], what: str, error: OSError, *, where: str | Path, hint: str) -> _Error:
    """Return the error that ``what`` failed at ``where``, and why, with ``hint``. If the reason is a dangling link, or a
    file in the place of a folder, the error names it and what to do with it."""
    obstacle = _obstacle(error, where)
    if obstacle is None:
        return kind(f"{what}: {error.strerror}", where=str(where), hint=hint)
    place, why, advice = obstacle
    return kind(f"{what}: {why}", where=place, hint=advice)


def _obstacle(error: OSError, where: str | Path) -> tuple[str, str, str] | None:
    """Return the outermost part of the path that is no folder, what it is instead, and what to do with it. The advice never
    is to remove anything: a file may be the user's own, next to a mistyped path, and a link may lead to a disk not
    mounted."""
    if error.errno not in _IN_THE_WAY:
        return None
    path = Path(os.path.abspath(error.filename if isinstance(error.filename, str) else where))
    for part in (*reversed(path.parents), path):
        if part.is_symlink() and not part.exists():
            return (
                str(part),
                f"it is a link to {os.readlink(part)}, which does not exist",
                "mount or create the target, or remove the link",
            )
        if part.is_file() and (part != path or error.errno == errno.EEXIST):
            return str(part), "it is a file where a folder is needed", "move it away"
    return None
