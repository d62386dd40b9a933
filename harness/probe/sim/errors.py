"""What cannot be simulated: one line that names the place and the way out."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Optional

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class SimulationError(RuntimeError):
    """The program asked for something that tensors without storage do not have."""


def caller(skip: str = "") -> Optional[FrameType]:
    """The innermost frame that is neither the simulation's nor torch's own (``torch.optim`` and ``torch.nn.utils`` count
    as the program's: they ask for values)."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        theirs = module == "torch" or module.startswith("torch.")
        if theirs and (module.startswith("torch.optim") or module.startswith("torch.nn.utils")):
            theirs = False
        if not theirs and not frame.f_code.co_filename.startswith(_OURS):
            return frame
        frame = frame.f_back
    return None


def place(frame: Optional[FrameType]) -> str:
    """``transformers/models/x.py:123 in forward``: the last three parts of the path, the line, the function."""
    if frame is None:
        return "an unknown place"
    path = "/".join(frame.f_code.co_filename.replace(os.sep, "/").split("/")[-3:])
    return f"{path}:{frame.f_lineno} in {frame.f_code.co_name}"
