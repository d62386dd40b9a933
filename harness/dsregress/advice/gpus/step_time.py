"""A model of the least time that a step can take on given hardware. Pure.

Nothing here is measured, and no job reaches it: kernels stay below a card's peak, launches and the optimizer's small
operations take time, and transfers do not overlap as well as is assumed. It says what no release can undercut, and
whether compute or communication sets the limit. A phase takes the longest of its three resources, as if they overlapped
wholly:

- compute: floating-point operations / the card's peak in the job's dtype;
- communication: bytes on the busiest link / its bandwidth. How many bytes of a message a link carries over n ranks is
  nccl-tests' "bus bandwidth" (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md), derived from ring
  algorithms (Patarasuk and Yuan, 2009, doi:10.1016/j.jpdc.2008.09.002). Beyond one node a ring is as fast as the slower
  of a GPU's link and all of its node's network adapters together;
- memory: only the optimizer's states, each of which a step reads and writes once.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dsregress.advice.gpus import Card
from vgpu.figures import PhaseReading

#: GPUs of a node. HGX boards of all the NVLink cards here carry eight.
GPUS_PER_NODE = 8
#: One adapter of 200 Gb/s per GPU, as a DGX A100 has (NVIDIA DGX A100 datasheet: 8x 200 Gb/s InfiniBand).
NETWORK_GBITS_PER_GPU = 200.0


#: The phases that are bounded.
STEP_PHASES = ("forward", "backward", "step")


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The least seconds of one phase, by resource."""

    compute_s: float
    communication_s: float
    memory_s: float

    @property
    def least_s(self) -> float:
        """Return the least seconds of the phase: those of its slowest resource."""
        return max(self.compute_s, self.communication_s, self.memory_s)

    @property
    def limit(self) -> str:
        """Return the resource that sets the bound: ``compute``, ``communication`` or ``memory``."""
        named = {"compute": self.compute_s, "communication": self.communication_s, "memory": self.memory_s}
        return max(named, key=lambda name: named[name])


def wire_share(kind: str, ranks: int) -> float:
    """Return the bytes that the busiest link carries per byte of a collective's message (the convention of
    `vgpu.meters.operators.COLLECTIVES`: the output of an all-gather, the input of a reduce-scatter)."""
    if ranks < 2 or kind == "barrier":
        return 0.0
    passed_on = (ranks - 1) / ranks
    if kind == "all_reduce":
        return 2 * passed_on
    if kind in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return passed_on
    return 1.0  # broadcast, reduce, send, recv: every byte passes each link once


def on_the_wire_bytes(reading: PhaseReading, ranks: int) -> float:
    """Return the bytes of a phase's collectives on the busiest link."""
    return sum(size * wire_share(kind, ranks) for kind, (_, size) in reading.collectives.items())


def link_bytes_per_s(
    card: Card,
    ranks: int,
    *,
    gpus_per_node: int = GPUS_PER_NODE,
    network_gbits_per_gpu: float = NETWORK_GBITS_PER_GPU,
) -> float:
    """Return the bandwidth that bounds a ring over all ranks, in bytes per second."""
    inside = card.link_gbs * 1e9
    if ranks <= gpus_per_node:
        return inside
    return min(inside, network_gbits_per_gpu * gpus_per_node / 8 * 1e9)


def bound(
    reading: PhaseReading, card: Card, dtype: str, ranks: int, link_bytes_s: float, state_bytes: int = 0
) -> Bound | None:
    """Return the bound of one phase; None if the card cannot compute in ``dtype``.

    ``state_bytes``: bytes of optimizer states that the phase reads and writes.
    """
    peak = card.flops(dtype)
    if peak is None:
        return None
    return Bound(
        compute_s=reading.flops / peak,
        communication_s=on_the_wire_bytes(reading, ranks) / link_bytes_s,
        memory_s=2 * state_bytes / (card.memory_gbs * 1e9),
    )


def step_bound(
    phases: Mapping[str, PhaseReading],
    card: Card,
    dtype: str,
    ranks: int,
    *,
    gpus_per_node: int = GPUS_PER_NODE,
    network_gbits_per_gpu: float = NETWORK_GBITS_PER_GPU,
    state_bytes: int = 0,
) -> dict[str, Bound]:
    """Return phase -> bound, of forward, backward, step; their sum bounds the step. Empty if the card lacks the dtype."""
    link = link_bytes_per_s(card, ranks, gpus_per_node=gpus_per_node, network_gbits_per_gpu=network_gbits_per_gpu)
    bounds = {}
    for phase in STEP_PHASES:
        if phase in phases:
            found = bound(phases[phase], card, dtype, ranks, link, state_bytes if phase == "step" else 0)
            if found is None:
                return {}
            bounds[phase] = found
    return bounds
