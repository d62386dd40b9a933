"""Writes files whole or not at all. Standard library only."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all, in a folder that others write to: an existing file is neither opened nor followed.
    Raise OSError."""
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(os.unlink, unfinished)
        with open(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
        os.chmod(unfinished, 0o644)  # mkstemp's 0600 would hide it from a host that is another user
        os.replace(unfinished, path)
        on_failure.pop_all()
