"""Forks in place of the processes that a program spawns. A new interpreter would have neither the card nor the rules of the
run, nor what is made up for it, and where torch and torchvision are of different builds not even torchvision; no CUDA
context forbids a fork here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from multiprocessing import context

from vgpu.replacing import Patches


@contextlib.contextmanager
def forked_processes() -> Iterator[None]:
    """Fork within the block where a program starts a process by ``spawn`` or ``forkserver``."""
    fork = staticmethod(context.ForkProcess._Popen)
    with Patches("a process that a program spawns inherits the run") as patches:
        for kind in (context.SpawnProcess, context.ForkServerProcess):
            patches.replace(kind, "_Popen", fork)
        yield
