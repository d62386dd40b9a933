"""The facts that a program can query about its card. Standard library only."""

from __future__ import annotations

import dataclasses

from vgpu.card_catalogue import Card


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
        ``aten/src/ATen/cuda/CublasHandlePool.cpp``): 32 MiB on Hopper, 8,519,680 bytes before it and after."""
        return 4096 * 8 * 1024 if self.compute_capability[0] == 9 else 4096 * 1024 * 2 + 16 * 1024 * 8
