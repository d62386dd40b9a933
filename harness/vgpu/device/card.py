"""The facts that a program can query about its card. Standard library only."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import re

from vgpu.card_catalogue import Card

#: Compute capabilities, major, for which cuBLAS recommends 32 MiB, and PyTorch allocates it: Hopper, and Blackwell from
#: the release on that re-enabled it (pytorch#175344).
_HOPPER = (9,)
_BLACKWELL = (10, 12)
_BLACKWELL_SINCE = (2, 12)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VirtualCard:
    """One GPU. The default is an H100 SXM with 80 GB, as ``torch.cuda.get_device_properties`` describes one."""

    name: str = "NVIDIA H100 80GB HBM3"
    memory_bytes: int = 85_014_872_064
    compute_capability: tuple[int, int] = (9, 0)
    multiprocessors: int = 132

    @classmethod
    def of(cls, card: Card) -> VirtualCard:
        """Return a known card as a program finds it."""
        major, minor = card.compute_capability.split(".")
        return cls(
            name=card.cuda_name,
            memory_bytes=card.usable_bytes,
            compute_capability=(int(major), int(minor)),
            multiprocessors=card.multiprocessors,
        )

    @property
    def blas_workspace_bytes(self) -> int:
        """The bytes that PyTorch allocates for each cuBLAS handle and stream (`parseChosenWorkspaceSize` in
        ``aten/src/ATen/cuda/CublasHandlePool.cpp``): 32 MiB on Hopper, and on Blackwell from torch 2.12 on, else
        8,519,680 bytes."""
        large = _HOPPER if _torch_release() < _BLACKWELL_SINCE else (*_HOPPER, *_BLACKWELL)
        return 4096 * 8 * 1024 if self.compute_capability[0] in large else 4096 * 1024 * 2 + 16 * 1024 * 8


@functools.cache
def _torch_release() -> tuple[int, ...]:
    """Return the installed torch's release; the newest one's if none is installed."""
    try:
        found = re.match(r"(\d+)\.(\d+)", importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        found = None
    return tuple(map(int, found.groups())) if found else _BLACKWELL_SINCE
