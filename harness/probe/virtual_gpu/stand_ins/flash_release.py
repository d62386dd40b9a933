"""Which flash-attention a program has: of its day, for which it was written.

``unpad_input`` returns five values from 2.7.0 (November 2024) on, and returned four: programs, and transformers itself,
unpack as many. transformers tells the day, 4.47.0 being the first release after 2.7.0.
"""

from __future__ import annotations

import importlib.metadata
import re

_BEFORE, _NEWEST = "2.6.3", "2.8.3"


def release_for(transformers: str) -> str:
    """``transformers`` is its version; empty where there is none."""
    found = re.match(r"(\d+)\.(\d+)", transformers)
    is_older = found is not None and (int(found[1]), int(found[2])) < (4, 47)
    return _BEFORE if is_older else _NEWEST


def counts_used() -> bool:
    """Whether ``unpad_input`` returns how many tokens of each sequence are used."""
    return RELEASE != _BEFORE


def _transformers() -> str:
    try:
        return importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        return ""


RELEASE = release_for(_transformers())
