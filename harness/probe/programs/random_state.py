"""Random numbers of a program: begun alike in each run, and compared."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import random
import sys

import torch


def begin() -> None:
    """Seeds what a program draws from that does not seed it itself, differently on each rank: else it would not repeat
    itself, whatever the releases do."""
    seed = int(os.environ.get("RANK", "0"))
    random.seed(seed)
    torch.manual_seed(seed)
    if importlib.util.find_spec("numpy") is not None:
        importlib.import_module("numpy").random.seed(seed)


def digest() -> str:
    """Of the states of Python, PyTorch and numpy. Equal where a program has drawn the same numbers so far."""
    sha = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    sha.update(repr(random.getstate()).encode())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        sha.update(f"{name} {rest}".encode() + keys.tobytes())
    return sha.hexdigest()[:16]
