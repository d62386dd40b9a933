"""Which torch can be measured."""

from __future__ import annotations

import torch

from harness.probe.no_stand_in import NoStandInError


def check(device: str) -> None:
    """Raises `NoStandInError` for a torch that is too old. Up to 2.1 a storage does not say when it is freed: a weak
    reference to one is never called, and may end the process. Up to 2.2 a weight cannot become another tensor, which
    ``.to("cuda")`` makes of it in a simulation."""
    release = torch.__version__.partition("+")[0]
    oldest = (2, 3) if device == "sim" else (2, 2)
    if tuple(int(part) for part in release.split(".")[:2]) < oldest:
        text = ".".join(map(str, oldest))
        raise NoStandInError(f"torch {release} is too old for {device}", f"give --torch {text}.0 or a newer one")
