"""The release of flash-attention that a program was written for, by its date.

``unpad_input`` returns five values from 2.7.0 (November 2024) on, and returned four: programs, and transformers itself,
unpack as many. The release of transformers gives the date, 4.47.0 being the first after 2.7.0.
"""

from __future__ import annotations

import importlib.metadata
import re

_BEFORE, _NEWEST = "2.6.3", "2.8.3"


def release_for(transformers: str) -> str:
    """Return the release for a version of transformers; ``transformers`` is empty if it is not installed."""
    found = re.match(r"(\d+)\.(\d+)", transformers)
    is_older = found is not None and (int(found[1]), int(found[2])) < (4, 47)
    return _BEFORE if is_older else _NEWEST


def counts_used() -> bool:
    """Return True if ``unpad_input`` returns how many tokens of each sequence are used."""
    return RELEASE != _BEFORE


def _transformers() -> str:
    try:
        return importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        return ""


RELEASE = release_for(_transformers())
