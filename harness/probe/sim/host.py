"""Host memory that is counted but not touched.

Offloaded optimizer states of a 70B model are tens of gigabytes of CPU tensors. Here they are real CPU tensors on pages
that the kernel never has to provide: an anonymous mapping without reservation, which costs address space alone as long
as nobody writes to it. Such a tensor is a *ghost*: it has a device, a shape, a dtype and a storage like any other, so
every code path that reads those behaves as usual; operators on it are answered from its geometry and not run.

A CPU tensor becomes a ghost by its origin: it is large and new, or something that is a ghost or on the device was
copied or computed into it. Small CPU tensors that the program filled itself (token ids, flags, step counts) stay real
and can be read.
"""

from __future__ import annotations

import mmap
from typing import Any

import torch

#: New CPU tensors of at least this many bytes have no contents; smaller ones are cheap enough to be real.
LARGE_BYTES = 1 << 20

#: Below this a ghost's pages come from the ordinary allocator: a separate mapping would cost more than it saves.
_MAPPED_BYTES = 1 << 16


def like(meta: torch.Tensor) -> torch.Tensor:
    """A CPU tensor of the geometry of a meta tensor, whose contents must not be read."""
    nbytes = meta.untyped_storage().nbytes()
    if nbytes < _MAPPED_BYTES:
        storage: Any = torch.UntypedStorage(nbytes, device="cpu")
    else:
        pages = mmap.mmap(
            -1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        )
        storage = torch.frombuffer(pages, dtype=torch.uint8).untyped_storage()
    empty = torch.empty(0, dtype=meta.dtype, device="cpu")
    return empty.set_(storage, meta.storage_offset(), meta.size(), meta.stride())


def stand_in(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor of the geometry of a CPU tensor."""
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
