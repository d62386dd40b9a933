"""``[tool.dsregress.ray]``: the settings of ``--executor ray``."""

from __future__ import annotations

import math

import msgspec


class Ray(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[tool.dsregress.ray]``."""

    #: of the head, as HOST:PORT, or ray://HOST:PORT; empty: the one that runs here, else one of our own
    address: str = ""
    #: on each node: environments and scratch files (DSREGRESS_ENVIRONMENTS there wins)
    folder: str = "~/.cache/dsregress"
    ranks_per_node: int = 0  #: ranks of one cell on a node; 0: as many as have a core, or a GPU, each
    resources: dict[str, dict[str, float]] = {}  #: device mode -> custom resources that each of its cells requests
    wait_s: float = 60.0  #: how long to wait for a node that is large enough to join

    def __post_init__(self) -> None:
        if self.ranks_per_node < 0:
            raise ValueError(f"ranks_per_node must not be negative (it is {self.ranks_per_node})")
        if not 0 <= self.wait_s <= 30 * 24 * 3600:
            raise ValueError(f"wait_s must be seconds from 0 to 30 days (it is {self.wait_s})")
        amounts = [amount for wanted in self.resources.values() for amount in wanted.values()]
        if not all(0 <= amount < math.inf for amount in amounts):
            raise ValueError("resources must be finite amounts, and not negative")
        for device in self.resources:
            if device not in ("sim", "cpu", "cuda"):
                raise ValueError(f"resources are by device mode: sim, cpu or cuda (and not {device})")
