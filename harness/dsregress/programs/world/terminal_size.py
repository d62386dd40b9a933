"""The size of a terminal for programs that draw their progress over its width: a rank has none."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator

from vgpu.replacing import Patches

_COLUMNS, _LINES = 80, 24
_ASKED = "stty size"


@contextlib.contextmanager
def usual_terminal() -> Iterator[None]:
    """Answer within the block what ``os.get_terminal_size`` and ``stty size`` would in a terminal of the usual size."""
    measured = os.get_terminal_size
    run: Callable[..., None] = subprocess.Popen.__init__

    def get_terminal_size(*descriptor: int) -> os.terminal_size:
        try:
            return measured(*descriptor)
        except OSError:
            return os.terminal_size((_COLUMNS, _LINES))

    def popen(process: object, args: object, *rest: object, **kwargs: object) -> None:
        words = args.split() if isinstance(args, str) else [*args] if isinstance(args, (list, tuple)) else []
        if words[:2] == _ASKED.split():
            answer = ["echo", str(_LINES), str(_COLUMNS)]
            args = " ".join(answer) if isinstance(args, str) else answer
        run(process, args, *rest, **kwargs)

    with Patches("a rank has no terminal") as patches:
        patches.replace(os, "get_terminal_size", get_terminal_size)
        patches.replace(subprocess.Popen, "__init__", popen)
        yield
