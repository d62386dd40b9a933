"""The answer of the process that makes a skeleton (`skeletons.__main__`). Standard library only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class SkeletonFile:
    name: str
    size_bytes: int  #: as a reader sees it
    disk_bytes: int  #: what it takes


class SkeletonRefused(ValueError):
    """The input allows no skeleton; one line that says why, and the way out."""


def answer_line(answer: Mapping[str, object]) -> str:
    """Return the line that the process writes."""
    return json.dumps(answer, default=dataclasses.asdict) + "\n"
