"""A description of this machine, as far as a comparison needs it. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from dsregress.config import variables
from dsregress.envs import inside
from dsregress.model import Hardware


def has_gpu() -> bool:
    """Return True if an NVIDIA driver is loaded (``/proc``), or visible through nvidia-smi (WSL, some containers)."""
    return Path("/proc/driver/nvidia/version").exists() or bool(inside.nvidia_smi("name"))


def detect() -> Hardware:
    """Return the CPU model, the cores and the memory that this process may use, GPUs and their driver."""
    return hardware_of(inside.machine())


def hardware_of(machine: Mapping[str, object]) -> Hardware:
    """Return the hardware from the fields of `dsregress.envs.inside.machine`. Environment variables that limit the
    processor's instructions count as part of its model: results under another limit differ in their last digits."""
    hardware = msgspec.convert(machine, Hardware)
    limits = variables.instruction_sets()
    return msgspec.structs.replace(hardware, cpu=f"{hardware.cpu} ({', '.join(limits)})") if limits else hardware
