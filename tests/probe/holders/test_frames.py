"""Which lines of code are named as the makers of memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dsregress
from dsregress.probe.holders.frames import StackWalker


def called_by(file: str) -> tuple[str, ...]:
    """The callers of a program's line that a main module in ``file`` runs."""
    found: list[tuple[str, ...]] = []
    program: dict[str, Any] = {
        "__name__": "train",
        "look": lambda: found.append(StackWalker("deepspeed").walk(sys._getframe(1))[1]),
    }
    exec(compile("def step():\n    look()\n", "/jobs/train.py", "exec"), program)
    main: dict[str, Any] = {"__name__": "__main__", "step": program["step"]}
    exec(compile("def main():\n    step()\nmain()\n", file, "exec"), main)
    return found[0]


def test_a_programs_main_module_is_a_caller_and_the_harness_own_is_none() -> None:
    server = Path(dsregress.__file__).parent / "probe" / "process" / "server.py"
    assert any("launch.py:2 in main" in caller for caller in called_by("/jobs/launch.py"))
    assert not any("server.py" in caller for caller in called_by(str(server)))
