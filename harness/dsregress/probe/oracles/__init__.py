"""Truths that need no baseline: plain PyTorch's numerics and ZeRO's ideal memory."""
