"""Host work: which Python functions run, and how often.

Counted by the interpreter's own profiler, so the counts are exact and repeat to the last call: Python functions as they
are entered (a generator at each resumption), C functions as Python calls them. The profiler's times are not used.
"""

from __future__ import annotations

import cProfile
import os
import re
from types import CodeType

from dsregress.probe.border.own_code import PACKAGE_FOLDERS, is_own_file

#: Functions kept by name per phase; the rest is in the total. Enough to name what grew, small enough to store.
FUNCTIONS_KEPT = 60

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class HostWork:
    """Counts calls within the block. It can be entered again, and then continues to count."""

    def __init__(self) -> None:
        self._profile = cProfile.Profile(subcalls=False)

    def __enter__(self) -> HostWork:
        self._profile.enable()
        return self

    def __exit__(self, *exc: object) -> None:
        self._profile.disable()

    def functions(self) -> dict[str, int]:
        """Return the calls by function, most called first, without those of the probe."""
        counted: dict[str, int] = {}
        for entry in self._profile.getstats():
            name = _python_name(entry.code) if isinstance(entry.code, CodeType) else _builtin_name(entry.code)
            if name is not None:
                counted[name] = counted.get(name, 0) + entry.callcount
        return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _python_name(code: CodeType) -> str | None:
    """Return ``deepspeed/runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.step``, the same on every machine; None
    for the probe's own."""
    if is_own_file(code.co_filename):
        return None
    path = code.co_filename.replace("\\", "/")
    for root in PACKAGE_FOLDERS:
        if root in path:
            path = path.rsplit(root, 1)[1]
            break
    else:
        if "/lib/python" in path:
            path = path.rsplit("/lib/python", 1)[1].split("/", 1)[-1]
        path = path.removeprefix(f"{os.getcwd()}/")  # a program's own file, in the folder of its run
    return f"{path}:{getattr(code, 'co_qualname', code.co_name)}"


def _builtin_name(description: str) -> str | None:
    """Return ``builtins.len`` for ``<built-in method builtins.len>``; None for the profiler's own."""
    if "_lsprof.Profiler" in description:
        return None
    return _ADDRESS.sub("", description.strip("<>").replace("built-in method ", ""))
