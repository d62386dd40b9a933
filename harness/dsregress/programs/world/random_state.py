"""Random numbers of a program: seeded alike in each run, and compared."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import random
import sys

import torch


def seed_program() -> None:
    """Seed Python's, PyTorch's and numpy's generators, differently on each rank: a program that does not seed them
    itself would otherwise not repeat itself, whatever the releases do."""
    seed = int(os.environ.get("RANK", "0"))
    random.seed(seed)
    torch.manual_seed(seed)
    if importlib.util.find_spec("numpy") is not None:
        importlib.import_module("numpy").random.seed(seed)


def random_digest() -> str:
    """Return a digest of the states of Python's, PyTorch's and numpy's generators: equal if a program has drawn the same
    numbers so far."""
    sha = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    sha.update(repr(random.getstate()).encode())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        sha.update(f"{name} {rest}".encode() + keys.tobytes())
    return sha.hexdigest()[:16]
