"""The oldest torch that can be measured. Imports no torch: the host refuses an older one before it is installed."""

from __future__ import annotations

from vgpu.no_stand_in import NoStandInError

#: Up to 2.1 a storage does not report that it is freed: a weak reference to one is never called, and may end the process. Up
#: to 2.2 a weight cannot become another tensor, as ``.to("cuda")`` requires in a simulation.
_OLDEST, _OLDEST_IN_SIM = (2, 2), (2, 3)


def check(device: str) -> None:
    """Raise NoStandInError if the installed torch is too old."""
    import torch

    if refusal := too_old(torch.__version__, device):
        raise NoStandInError(*refusal)


def too_old(version: str, device: str) -> tuple[str, str] | None:
    """Return the reason why a release of torch is too old, and the remedy; None if it can be measured."""
    release = version.partition("+")[0]
    oldest = _OLDEST_IN_SIM if device == "sim" else _OLDEST
    if tuple(int(part) for part in release.split(".")[:2]) >= oldest:
        return None
    text = ".".join(map(str, oldest))
    return f"torch {release} is too old for {device}", f"give --torch {text}.0 or a newer one"
