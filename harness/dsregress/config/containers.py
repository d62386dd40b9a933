"""``[tool.dsregress.docker]``: the settings of ``--executor docker``."""

from __future__ import annotations

import os

import msgspec

_GIB = 1 << 30


class Containers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[tool.dsregress.docker]``. Limits are those of each container."""

    base: str = ""  #: base image of the stacks' images; empty: `python:X.Y-slim`, with GPUs `cuda_base`
    cuda_base: str = "nvidia/cuda:{cuda}-runtime-ubuntu22.04"  #: {cuda} is the release of CUDA that the lock pins
    memory_bytes: int = 0  #: 0: nine tenths of this machine's memory
    shm_bytes: int = 1 * _GIB
    scratch_bytes: int = 4 * _GIB  #: of /tmp, which is memory too
    pids: int = 4096

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "shm_bytes", "scratch_bytes", "pids"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative (it is {getattr(self, name)})")

    @property
    def memory_limit_bytes(self) -> int:
        """The limit that a container gets."""
        return self.memory_bytes or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 9 // 10
