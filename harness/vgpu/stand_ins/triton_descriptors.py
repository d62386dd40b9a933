"""Descriptors of tensors that a program makes on the host for kernels."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

__all__ = ["TensorDescriptor"]


@dataclasses.dataclass
class TensorDescriptor:
    """A tensor and the blocks in which a kernel reads and writes it."""

    base: torch.Tensor
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: Any = "zero"

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, block_shape: list[int], padding: object = "zero") -> TensorDescriptor:
        return cls(tensor, list(tensor.shape), list(tensor.stride()), block_shape, padding)
