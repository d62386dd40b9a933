"""What this machine is, as far as a comparison must know. Nothing here imports torch."""

from __future__ import annotations

from pathlib import Path

from harness.envs import inside
from harness.model import Hardware


def has_gpu() -> bool:
    """Whether an NVIDIA driver is loaded (``/proc``), or visible through nvidia-smi (WSL, some containers)."""
    return Path("/proc/driver/nvidia/version").exists() or bool(inside.nvidia_smi("name"))


def detect() -> Hardware:
    """CPU model, the cores and the memory that this process may use, GPUs and their driver."""
    return Hardware(**inside.machine())
