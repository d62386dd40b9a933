"""The oldest releases of partners that anything stored was run with. Pure.

``oldest_run.json`` has them. Nothing is known beside an older one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from dsregress.advisories.matching import parsed


@functools.cache
def oldest_run() -> Mapping[str, str]:
    """Return package -> the oldest release that results were measured with."""
    return msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, str])


def older_than_run(versions: Mapping[str, str]) -> Iterator[str]:
    """Yield ``torch 2.1.2`` for each release of a minor version before that one."""
    for name, oldest in oldest_run().items():
        if name in versions and parsed(versions[name]).release[:2] < parsed(oldest).release[:2]:
            yield f"{name} {versions[name]}"
