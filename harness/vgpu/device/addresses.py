"""Addresses of the simulated card's memory: those of the blocks that the allocator's model hands out.

Torch has tensors without storage at address 0, all of them, and programs tell tensors apart by address: FSDP1 its gathered
weights from its shards, accelerate the parameters of an optimizer, transformers the weights that share memory. What is freed
and allocated again may have the address of something before, as on a GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from vgpu.device.books import Books
from vgpu.replacing import Patches


@contextlib.contextmanager
def of_blocks(books: Books) -> Iterator[None]:
    """Give tensors and storages of the simulated card the addresses of their blocks within the block. Those of the host
    have their own, and those that the program put on ``meta`` have none."""
    of_tensor: Any = torch.Tensor.data_ptr
    of_storage: Any = torch.UntypedStorage.data_ptr

    def tensor_address(self: torch.Tensor) -> int:
        found: int = of_tensor(self)
        if hasattr(type(self), "__tensor_flatten__"):  # made of others, it has no bytes of its own
            return found
        with torch._C.DisableTorchFunction():
            if not self.is_meta:
                return found
            if not self.numel():
                return 0
            begin = books.address(self.untyped_storage())
            return begin and begin + self.storage_offset() * self.element_size()

    def storage_address(self: torch.UntypedStorage) -> int:
        return of_storage(self) or books.address(self)

    with Patches("tensors of the card have addresses") as patches:
        patches.replace(torch.Tensor, "data_ptr", tensor_address)
        patches.replace(torch.UntypedStorage, "data_ptr", storage_address)
        yield
