"""Files that are whole or absent."""

from __future__ import annotations

import contextlib
import os
import tempfile


def write_atomically(file: str, data: bytes) -> None:
    """Replace ``file`` by ``data`` so that a reader, or a crash at any moment, sees the old or the new, never a part.

    Raises OSError.
    """
    folder = os.path.dirname(os.path.abspath(file))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".partial-")
    try:
        with open(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's 0600 would hide it from whoever publishes the folder
        os.replace(temporary, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
