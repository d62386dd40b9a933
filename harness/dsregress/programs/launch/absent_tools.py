"""Programs of the system that a package calls and the machine lacks, which no package of Python's brings: espeak, ffmpeg,
sox, git-lfs. Such an error says nothing about a release, and other packages fail alike."""

from __future__ import annotations

import re
import shutil
import subprocess

from dsregress.programs.launch import missing_imports
from vgpu.error_chain import behind_one_another

#: ``espeak not installed on your system``, ``ffmpeg was not found in PATH``, ``sox: command not found``.
_PLACE = r"(?:on|in) (?:(?:your|this|the|system) )*(?:\$?PATH|system|machine|computer)\b"
_NAME = r"[\"'`]?(?P<name>[A-Za-z][\w.+-]*)[\"'`]?(?: program| executable| binary| command)?(?::| is| was)?"
_NOT_INSTALLED = re.compile(
    rf"{_NAME} (?:not (?:installed|found|available) {_PLACE}|command not found\b)", re.IGNORECASE
)


def absent_tool(error: BaseException) -> str:
    """Return the name of the program that an error, or one behind it, says is not installed; empty if it says none, or the
    machine has it, or a module has that name: then a package is missing."""
    for one in behind_one_another(error):
        said = _NOT_INSTALLED.search(f"{one} {_printed(one)}")
        name = said["name"] if said is not None else ""
        if isinstance(one, FileNotFoundError) and isinstance(one.filename, str) and _is_of_a_call(one):
            name = name or one.filename
        if name and shutil.which(name) is None and missing_imports.is_missing(name.replace("-", "_")):
            return name
    return ""


def _printed(error: BaseException) -> str:
    """Return what a process printed that ended in an error."""
    printed = error.stderr if isinstance(error, subprocess.CalledProcessError) else None
    return printed.decode("utf-8", "replace") if isinstance(printed, bytes) else str(printed or "")


def _is_of_a_call(error: FileNotFoundError) -> bool:
    """Return True if a program was not found that `subprocess` started by its name."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    name = str(error.filename)
    return at is not None and at.tb_frame.f_code.co_name == "_execute_child" and "/" not in name
