"""Host work: which Python functions run, and how often.

Counted with the interpreter's profile hook, so the counts are exact and repeat to the last call. Python functions are
counted when they are entered, C functions when Python calls them.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any, Dict, Optional

#: Functions kept by name per phase; the rest is in the total. Enough to name what grew, small enough to store.
FUNCTIONS_KEPT = 60


class HostWork:
    """Counts calls while it is entered; may be entered again, and goes on counting."""

    def __init__(self) -> None:
        self._python: Dict[CodeType, int] = {}
        self._builtin: Dict[str, int] = {}
        self._previous: Any = None

    def __enter__(self) -> "HostWork":
        self._previous = sys.getprofile()
        sys.setprofile(self._hook())
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(self._previous)

    def _hook(self) -> Any:
        python, builtin = self._python, self._builtin

        def count(frame: FrameType, event: str, called: Any) -> None:
            if event == "call":
                code = frame.f_code
                python[code] = python.get(code, 0) + 1
            elif event == "c_call":
                name = _builtin_name(called)
                builtin[name] = builtin.get(name, 0) + 1

        return count

    def functions(self) -> Dict[str, int]:
        """Calls by function, most called first; without the calls that belong to measuring."""
        counted = dict(self._builtin)
        for code, calls in self._python.items():
            name = _python_name(code)
            if name is not None:
                counted[name] = counted.get(name, 0) + calls
        for own in ("sys.setprofile",):
            counted.pop(own, None)
        return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _python_name(code: CodeType) -> Optional[str]:
    """``deepspeed/runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.step``, the same on every machine."""
    path = code.co_filename.replace("\\", "/")
    if "/harness/probe/" in path:
        return None
    for root in ("/site-packages/", "/dist-packages/"):
        if root in path:
            path = path.rsplit(root, 1)[1]
            break
    else:
        if "/lib/python" in path:
            path = path.rsplit("/lib/python", 1)[1].split("/", 1)[-1]
    return f"{path}:{getattr(code, 'co_qualname', code.co_name)}"


def _builtin_name(called: Any) -> str:
    module = getattr(called, "__module__", None)
    name = getattr(called, "__qualname__", None) or type(called).__name__
    return f"{module}.{name}" if isinstance(module, str) else name
