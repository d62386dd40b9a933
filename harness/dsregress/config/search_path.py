"""The folders of ``PYTHONPATH`` in the shell where a launch line is typed: measured processes do not see that shell."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

_NAME = "PYTHONPATH"
#: Outside of single quotes, within which a shell fills nothing in.
_FILLED = re.compile(rf"\$\{{{_NAME}\}}|\${_NAME}\b")
_SET = re.compile(rf"(\s|^){_NAME}=")


def with_search_path(line: str, folder: Path, environ: Mapping[str, str] | None = None) -> str:
    """Return a launch line with the shell's ``PYTHONPATH`` in place of ``$PYTHONPATH`` or, if it sets none, before it.

    Only folders below ``folder``, where the line is typed, count: others are not the program's own.
    """
    given = (os.environ if environ is None else environ).get(_NAME, "")
    searched = os.pathsep.join(_own_folders(given, Path(os.path.realpath(folder))))
    if _SET.search(line):
        return _FILLED.sub(lambda _: searched, line) if "'" not in line else line
    return f"{_NAME}={shlex.quote(searched)} {line}" if searched else line


def _own_folders(given: str, folder: Path) -> list[str]:
    """Return those of the folders that are below ``folder``, relative to it."""
    own = []
    for each in given.split(os.pathsep) if given else ():
        path = Path(os.path.realpath(folder / os.path.expanduser(each)))
        if path.is_relative_to(folder) and path.is_dir():
            own.append(str(path.relative_to(folder)))
    return own
