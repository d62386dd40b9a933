"""Errors of programs that cannot be simulated: one line that names the place in the code and the way out."""

from __future__ import annotations

import os
import sys
from types import FrameType

#: Modules whose frames lie between the program and the simulation: this package, and the harness's observers, which wrap
#: calls of modules.
_OURS = ("vgpu.", "dsregress.probe.meters.", "dsregress.probe.holders.")


class SimulationError(RuntimeError):
    """The program needs something that tensors without storage do not have."""


def caller() -> FrameType | None:
    """Return the innermost frame that is neither the simulation's nor torch's own (``torch.optim``, ``torch.nn.utils`` and
    ``torch.nn.init`` count as the program's: they read values)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        theirs = module == "torch" or module.startswith("torch.")
        if theirs and module.startswith(("torch.optim", "torch.nn.utils", "torch.nn.init")):
            theirs = False
        if not theirs and not module.startswith(_OURS):
            return frame
        frame = frame.f_back
    return None


def location(frame: FrameType | None) -> str:
    """Return the place of a frame, ``transformers/models/llama/modeling_llama.py:123 in forward``: the path as it is
    imported, without the folders of this machine."""
    if frame is None:
        return "an unknown place"
    file = frame.f_code.co_filename
    root = max(
        (folder for folder in map(os.path.abspath, sys.path) if file.startswith(folder + os.sep)), key=len, default=""
    )
    path = (os.path.relpath(file, root) if root else os.path.basename(file)).replace(os.sep, "/")
    return f"{path}:{frame.f_lineno} in {frame.f_code.co_name}"
