"""Random numbers of a program: begun alike in each run, and told apart."""

from __future__ import annotations

import hashlib
import os
import random
import sys

import torch


def begin() -> None:
    """Python begins its own anew in each forked process: a program that seeds nothing would not repeat itself."""
    random.seed(int(os.environ.get("RANK", "0")))


def digest() -> str:
    """Of the states of Python, PyTorch and numpy. Equal where a program has drawn the same numbers so far."""
    sha = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    sha.update(repr(random.getstate()).encode())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        sha.update(f"{name} {rest}".encode() + keys.tobytes())
    return sha.hexdigest()[:16]
