"""The error behind a name that a package of the program's own lacks, as it caught what the import of the name raised.

LLaVA-NeXT imports its models within ``try`` and prints why one cannot be imported; then ``from llava.model import
LlavaLlamaForCausalLM`` says only that there is no such name. The module that defines it is imported once more.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from dsregress.probe.border.own_code import FOLDERS
from dsregress.programs.world.resource_errors import LIBRARIES

_ABSENT_NAME = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
_MOST_FILES = 2_000


def swallowed_reason(error: Exception) -> Exception:
    """Return what a package of the program's own caught, if its lack of a name is ``error``; else ``error``."""
    found = _ABSENT_NAME.match(str(error)) if isinstance(error, ImportError) else None
    package = sys.modules.get(found[2]) if found else None
    if found is None or package is None:
        return error
    for folder in getattr(package, "__path__", ()):
        if os.path.realpath(folder).startswith(LIBRARIES):
            return error
        for module in _modules_defining(found[1], Path(folder)):
            try:
                importlib.import_module(f"{found[2]}.{module}")
            except Exception as reason:  # of any kind, as the program catches any
                return reason.with_traceback(_appended(error.__traceback__, _of_the_program(reason.__traceback__)))
    return error


def _of_the_program(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the first frames, which only import."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith((*LIBRARIES, *FOLDERS, "<")):
        trace = trace.tb_next
    return trace


def _appended(outer: TracebackType | None, inner: TracebackType | None) -> TracebackType | None:
    """Return one traceback: that of the import which failed, and of what it imports."""
    if outer is None:
        return inner
    return TracebackType(_appended(outer.tb_next, inner), outer.tb_frame, outer.tb_lasti, outer.tb_lineno)


def _modules_defining(name: str, folder: Path) -> Iterator[str]:
    """Yield the modules below the folder of a package that define a name, relative to it."""
    defines = re.compile(rf"^(?:class|def)\s+{name}\b|^{name}\s*=", re.MULTILINE)
    seen = 0
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if each.isidentifier())
        seen += len(files)
        if seen > _MOST_FILES:
            return
        for file in sorted(files):
            path = Path(at, file)
            if path.suffix == ".py" and path.stem.isidentifier() and defines.search(path.read_text(errors="replace")):
                parts = path.relative_to(folder).with_suffix("").parts
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
