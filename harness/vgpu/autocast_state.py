"""The current state of autocast, by device type. Up to torch 2.3 each device had functions of its own, and those without a
device in their name were CUDA's."""

from __future__ import annotations

from typing import Any

import torch

#: True if torch's functions take the device type.
BY_DEVICE = hasattr(torch, "get_autocast_dtype")


def enabled(device: str) -> bool:
    """Return True if autocast is enabled for the device type."""
    if BY_DEVICE:
        return torch.is_autocast_enabled(device)
    return _of_old(device, is_enabled=True)


def dtype(device: str) -> torch.dtype:
    """Return the dtype that autocast casts to on the device type."""
    if BY_DEVICE:
        return torch.get_autocast_dtype(device)
    return _of_old(device, is_enabled=False)


def _of_old(device: str, *, is_enabled: bool) -> Any:
    old: Any = torch
    if device == "cpu":
        return old.is_autocast_cpu_enabled() if is_enabled else old.get_autocast_cpu_dtype()
    return old.is_autocast_enabled() if is_enabled else old.get_autocast_gpu_dtype()
