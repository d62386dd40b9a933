"""The traffic of collectives inside nodes and between them. Pure.

The bytes that one rank sends follow the convention of nccl-tests (`dsregress.advice.gpus.step_time.wire_share`). A ring over
n ranks on k nodes has n links, of which k lead from one node to the next; a chain (broadcast, reduce) has one link less of
each; an all-to-all sends equally to all others. So these are means over a group's ranks. NCCL may use other algorithms; a
tree sends no less between nodes. Messages from rank to rank are left out: the group does not identify their receiver.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dsregress.advice.gpus.step_time import wire_share
from vgpu.figures import PhaseReading


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes that one rank sends."""

    inside_bytes: float  #: to ranks of its own node
    between_bytes: float  #: to ranks of other nodes

    @property
    def share_between(self) -> float:
        """Return the share of the bytes that goes to other nodes; 0 if nothing is sent."""
        total = self.inside_bytes + self.between_bytes
        return self.between_bytes / total if total else 0.0


def ranks_in(text: str) -> tuple[int, ...]:
    """Return the ranks of a group as `PhaseReading.groups` spells them. Raise ValueError for any other spelling."""
    if "-" not in text:
        return tuple(int(rank) for rank in text.split(","))
    span, _, step = text.partition("/")
    first, _, last = span.partition("-")
    return tuple(range(int(first), int(last) + 1, int(step or 1)))


def traffic(readings: Iterable[PhaseReading], gpus_per_node: int) -> Traffic | None:
    """Return the traffic of these phases together; None if no collective has a group, as in results of older probes."""
    groups = [(*name.partition(" ")[::2], size) for reading in readings for name, (_, size) in reading.groups.items()]
    if not groups:
        return None
    inside = between = 0.0
    for kind, text, size in groups:
        if kind in ("send", "recv"):
            continue
        ranks = ranks_in(text)
        sent = size * wire_share(kind, len(ranks))
        share = _share_between(kind, ranks, gpus_per_node)
        between += sent * share
        inside += sent * (1 - share)
    return Traffic(inside_bytes=inside, between_bytes=between)


def _share_between(kind: str, ranks: tuple[int, ...], gpus_per_node: int) -> float:
    number = len(ranks)
    nodes = len({rank // gpus_per_node for rank in ranks})
    if number < 2 or nodes == 1:
        return 0.0
    if kind == "all_to_all":
        return (number - number / nodes) / (number - 1)
    if kind in ("broadcast", "reduce"):
        return (nodes - 1) / (number - 1)
    return nodes / number
