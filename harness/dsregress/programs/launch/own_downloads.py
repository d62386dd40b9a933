"""Downloads by a program's own code, which a run refuses: the address, and the file in which it is kept."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from types import FrameType

from dsregress.programs.world.resource_errors import innermost_place
from vgpu.error_chain import behind_one_another


def refused_address(error: BaseException, host: str) -> str:
    """Return the address on ``host`` that the program's own line had asked for; empty if that is not seen."""
    found = (text for text in _texts(error) if text.startswith(("http://", "https://")) and host in text)
    return next((text for text in found if " " not in text), "")


def path_of_download(error: BaseException, address: str) -> str:
    """Return the path of the file, of the address's last part, that the program's own code names; empty if it names none,
    or one that exists."""
    name = os.path.basename(address.partition("?")[0])
    found = (text for text in _texts(error) if name and os.path.basename(text) == name and "://" not in text)
    return next((text for text in found if not os.path.exists(text)), "")


def _texts(error: BaseException) -> Iterator[str]:
    """Yield the texts that the program's own frames hold, and then those that stand in their code, the innermost first."""
    for frame in _own_frames(error):
        for value in frame.f_locals.values():
            if isinstance(value, (str, os.PathLike)) and isinstance(text := os.fspath(value), str):
                yield text
        yield from (one for one in frame.f_code.co_consts if isinstance(one, str))


def _own_frames(error: BaseException) -> Iterator[FrameType]:
    for one in behind_one_another(error):
        for frame, line in reversed([*traceback.walk_tb(one.__traceback__)]):
            if innermost_place([(frame.f_code.co_filename, line)]) is not None:
                yield frame
