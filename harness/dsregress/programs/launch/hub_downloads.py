"""Downloads by `torch.hub`, which a run without a network refuses: where what is missing is looked for."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from types import FrameType

from dsregress.programs.world.resource_errors import place_of
from vgpu.error_chain import behind_one_another


def absent_from_hub(error: BaseException) -> str | None:
    """Return one line that says where to put a repository or weights that ``torch.hub`` would download; None if an error is
    not due to it."""
    for frame in _frames_of_hub(error):
        given = frame.f_locals
        if frame.f_code.co_name == "load" and "repo_or_dir" in given:
            owner, _, rest = str(given["repo_or_dir"]).partition("/")
            name, _, branch = rest.partition(":")
            folder = f"hub/{owner}_{name}_{branch.replace('/', '_') or 'main'}"
            return _line(error, f"github.com/{owner}/{name}", f"clone it into {folder} of a folder DIR")
        if frame.f_code.co_name == "load_state_dict_from_url":
            file = str(given.get("file_name") or os.path.basename(str(given.get("url"))))
            return _line(error, file, "put it into hub/checkpoints of a folder DIR")
    return None


def _frames_of_hub(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of `torch.hub` that an error came through, the innermost first."""
    for one in behind_one_another(error):
        frames = [frame for frame, _ in traceback.walk_tb(one.__traceback__)]
        yield from (frame for frame in reversed(frames) if frame.f_globals.get("__name__") == "torch.hub")


def _line(error: BaseException, what: str, how: str) -> str:
    return f"{place_of(error)}: {what} is not here: {how}, and write TORCH_HOME=DIR before the line"
