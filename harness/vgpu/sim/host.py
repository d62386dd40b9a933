"""Host memory that is counted but not touched.

Offloaded optimizer states of a 70B model are tens of gigabytes of CPU tensors. Here they are real CPU tensors on pages
that the kernel never has to provide: an anonymous mapping without reservation, which costs address space alone as long
as nothing writes to it. Such a tensor is a *ghost*: it has a device, a shape, a dtype and a storage like any other, so
every code path that reads those behaves as usual; operators on it are answered from its geometry and not run.

A CPU tensor becomes a ghost by its origin: it is large and new, or something that is a ghost or on the device was
copied or computed into it. Weights, optimizer states and activations are floats; integers are data (token ids, the
order in which a sampler draws), which programs read, so these stay real up to a larger size. Small CPU tensors that the
program filled itself stay real and can be read.
"""

from __future__ import annotations

import mmap
from typing import Any

import torch

#: New CPU tensors of floats have contents below this many bytes, which are cheap enough to be real.
_LARGEST_FLOATS_BYTES = 1 << 20

#: And of integers: 131 million indices.
_LARGEST_INTEGERS_BYTES = 1 << 30

#: Below this a ghost's pages come from the ordinary allocator: a separate mapping would cost more than it saves. So writing
#: to them costs nothing.
MAPPED_BYTES = 1 << 16


def keeps_contents(tensor: torch.Tensor) -> bool:
    """Return True if a new CPU tensor of this geometry and dtype is real."""
    is_float = tensor.is_floating_point() or tensor.is_complex()
    return tensor.untyped_storage().nbytes() < (_LARGEST_FLOATS_BYTES if is_float else _LARGEST_INTEGERS_BYTES)


def like(meta: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor of the geometry of a meta tensor, whose contents must not be read."""
    empty = torch.empty(0, dtype=meta.dtype, device="cpu")
    return empty.set_(pages(meta.untyped_storage().nbytes()), meta.storage_offset(), meta.size(), meta.stride())


def pages(nbytes: int) -> Any:
    """Return a CPU storage of ``nbytes`` bytes that nothing has written to."""
    if nbytes < MAPPED_BYTES:
        return torch.UntypedStorage(nbytes, device="cpu")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return torch.frombuffer(mmap.mmap(-1, nbytes, flags=flags), dtype=torch.uint8).untyped_storage()


def stand_in(tensor: torch.Tensor) -> torch.Tensor:
    """Return a meta tensor of the geometry of a CPU tensor."""
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
