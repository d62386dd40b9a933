"""The releases that their publishers have yanked, as known offline: committed data, refreshed by ``nox -s update_pins``."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from dsregress.versions.releases import is_too_old, sorted_versions

FILE = Path(__file__).with_suffix(".toml")

_HEAD = """\
# Releases that their publishers have yanked: pip takes one only where it is pinned, and no list of releases has it. With the
# reasons that they give; of the packages of every stack. Written by nox -s update_pins.
"""


@functools.cache
def yanked_releases() -> Mapping[str, Mapping[str, str]]:
    """Return package -> yanked release -> the publisher's reason, which may be empty."""
    return msgspec.toml.decode(FILE.read_bytes(), type=dict[str, dict[str, str]])


def write_yanked(found: Mapping[str, Mapping[str, str]]) -> None:
    """Replace the data, given as `yanked_releases` returns it: the releases from the oldest known one on."""
    blocks = [_HEAD]
    for package, reasons in sorted(found.items()):
        kept = [one for one in sorted_versions(reasons) if not is_too_old(package, one)]
        if kept:
            lines = "".join(f"{json.dumps(one)} = {json.dumps(reasons[one])}\n" for one in kept)
            blocks.append(f"[{package}]\n{lines}")
    FILE.write_text("\n".join(blocks), encoding="utf-8")
    yanked_releases.cache_clear()
