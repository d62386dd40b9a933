"""The releases that their publishers have yanked, as known offline: ``yanked.toml``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec


@functools.cache
def yanked_releases() -> Mapping[str, Mapping[str, str]]:
    """Return package -> yanked release -> the publisher's reason, which may be empty."""
    return msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, dict[str, str]])
