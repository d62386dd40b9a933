"""GPUs through their driver's management library (NVML): their number, their clocks, and what slows them down.

NVML neither makes a CUDA context nor keeps a process from forking, unlike ``torch.cuda``. It comes with the stack
(DeepSpeed requires ``nvidia-ml-py``, the module ``pynvml``); without it, or without a driver, nothing is reported. Names
and bits: ``nvml.h``, group "Clocks Event Reasons"
(https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dsregress.probe.border.wire import Clocks

#: Reasons for clocks below their maximum, by their bits from the lowest.
_NAMES = (
    *("idle", "application_clocks", "power_cap", "hardware_slowdown", "sync_boost", "software_thermal"),
    *("hardware_thermal", "power_brake", "display_clocks"),
)
REASONS = {1 << bit: name for bit, name in enumerate(_NAMES)}

#: The reasons that make a round worthless: the card was too hot, or its power supply failed to keep up. The power cap is
#: not one: under full load a data-centre card is always at it, in every round of every release.
THROTTLING = ("hardware_slowdown", "software_thermal", "hardware_thermal", "power_brake")

_DRIVER_FOLDER = Path("/proc/driver/nvidia/gpus")


def library() -> object:
    """Return the initialised ``pynvml``; None if it or its driver is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # its own errors differ from release to release, and none of them is worth a cell
        return None
    return pynvml


def gpu_count(environment: Mapping[str, str] = os.environ, nvml: Any = None) -> int:
    """Return the number of GPUs that CUDA would show to this process. Fork-safe: CUDA is not initialised."""
    nvml = nvml or library()
    if nvml is not None:
        count = int(nvml.nvmlDeviceGetCount())
    else:
        count = sum(1 for _ in _DRIVER_FOLDER.iterdir()) if _DRIVER_FOLDER.is_dir() else 0
    return len(visible(environment.get("CUDA_VISIBLE_DEVICES"), count))


def visible(setting: str | None, count: int) -> list[str]:
    """Return what ``CUDA_VISIBLE_DEVICES`` leaves of ``count`` GPUs: indices or UUIDs, up to the first invalid one, as
    in https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables."""
    if setting is None:
        return [str(index) for index in range(count)]
    left: list[str] = []
    for name in (part.strip() for part in setting.split(",")):
        if not (re.fullmatch(r"\d+", name) and int(name) < count) and not name.startswith(("GPU-", "MIG-")):
            break
        left.append(name)
    return left if count else []


def slowdowns(bits: int) -> list[str]:
    """Return the names of what slows a card down; unnamed bits stay numbers."""
    known = [name for bit, name in REASONS.items() if bits & bit]
    unknown = bits & ~sum(REASONS)
    return [*known, *([hex(unknown)] if unknown else [])]


class Board:
    """One GPU, for the whole run."""

    def __init__(self, name: str, nvml: Any) -> None:
        """Open the GPU ``name``, an index or a UUID. Raise NVML's errors."""
        self._nvml = nvml
        self._handle = (
            nvml.nvmlDeviceGetHandleByUUID(name) if not name.isdecimal() else nvml.nvmlDeviceGetHandleByIndex(int(name))
        )

    def clocks(self) -> Clocks | None:
        """Return the current clocks: read them while the GPU is busy. None if the card does not report them."""
        nvml = self._nvml
        query = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        query = query or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        try:
            why = slowdowns(int(query(self._handle)))
            return Clocks(
                sm_mhz=int(nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM)),
                memory_mhz=int(nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_MEM)),
                reasons=why,
                throttled=any(reason in THROTTLING for reason in why),
            )
        except nvml.NVMLError:
            return None


def board(local_rank: int, environment: Mapping[str, str] = os.environ, nvml: Any = None) -> Board | None:
    """Return the GPU of a rank; None if NVML is missing or does not know it."""
    nvml = nvml or library()
    if nvml is None:
        return None
    try:
        names = visible(environment.get("CUDA_VISIBLE_DEVICES"), int(nvml.nvmlDeviceGetCount()))
        return Board(names[local_rank], nvml)
    except (IndexError, nvml.NVMLError):
        return None
