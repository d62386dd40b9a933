"""The Python objects that live after each step of a program that runs on: what stays from step to step piles up."""

from __future__ import annotations

import gc


class LiveObjects:
    """Counts them. Those that were frozen before, which stay whatever a step does, are left out."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def count(self) -> None:
        """Count what is alive, without what a collection frees."""
        gc.collect()
        self.counts.append(len(gc.get_objects()))
