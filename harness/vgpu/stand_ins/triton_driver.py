"""Triton's driver: the properties of the card that Triton runs on."""

from __future__ import annotations

import types
from typing import Any

import torch

from vgpu.device import launching
from vgpu.no_stand_in import NoStandInError, StandIn

__all__ = ["active", "driver"]


class _Utils(StandIn):
    """The properties of a card by its number."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        found: Any = torch.cuda.get_device_properties(device)
        return {
            "max_shared_mem": found.shared_memory_per_block_optin,
            "max_num_regs": found.regs_per_multiprocessor,
            "multiprocessor_count": found.multi_processor_count,
            "warpSize": found.warp_size,
        }


class _Active(StandIn):
    """The driver of CUDA."""

    utils = _Utils("triton.runtime.driver.active.utils")

    def get_current_target(self) -> object:
        """Return the backend, the architecture (90 for compute capability 9.0) and the warp size of the card."""
        major, minor = launching.card().compute_capability
        return types.SimpleNamespace(backend="cuda", arch=10 * major + minor, warp_size=32)

    def get_current_device(self) -> int:
        return torch.cuda.current_device()

    def get_current_stream(self, device: object = None) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", self.get_current_device())

    def get_device_interface(self) -> object:
        return torch.cuda

    def get_benchmarker(self) -> object:
        """Return the benchmark function, which Triton 3.2 fetches when a kernel is defined, and calls when one is tuned."""
        return _benchmark


def _benchmark(*_: object, **__: object) -> object:
    raise NoStandInError("Triton's benchmarker has no stand-in: no kernel is run in sim")


active = _Active("triton.runtime.driver.active")
driver = StandIn("triton.runtime.driver", active=active)
