"""Made-up weights: a function of the parameter's name, so that every release and every rank starts from the same ones."""

from __future__ import annotations

import zlib

import torch

#: Scale of the random weights, that of Llama's and Qwen's own `initializer_range`.
WEIGHT_SCALE = 0.02


def weight(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return the weight of a parameter, fp32 on CPU: around one for norms, around zero otherwise, always with some
    noise, so that no two rows train alike and a value that gets lost shows."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    values = torch.randn(shape, generator=generator) * WEIGHT_SCALE
    return values + 1 if len(shape) == 1 and name.endswith("norm.weight") else values
