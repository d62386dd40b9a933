"""The resources that a cell requests from a cluster, given its nodes. Pure; the cluster does the placing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dsregress.config.ray import Ray
from dsregress.launch.workers import SIM_BYTES, rank_count
from dsregress.model import Cell


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the cluster."""

    id: str
    address: str
    has: Mapping[str, float]  #: resource -> its total amount

    @property
    def kind(self) -> tuple[float, float]:
        """Its CPUs and GPUs: nodes of one kind are alike."""
        return self.has.get("CPU", 0), self.has.get("GPU", 0)


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """The needs of a cell: a number of nodes, and resources on each."""

    nodes: int
    ranks: int  #: of its ranks, on each node
    resources: Mapping[str, float]


def needs_of_cell(cell: Cell, nodes: Sequence[ClusterNode], settings: Ray) -> Needs:
    """Return a cell's needs: CPUs for ranks, GPUs if it runs on them, memory if it simulates, and the configured custom
    resources.

    Ranks go on one node if it has a core, or a GPU, for each. Otherwise they are divided evenly over several, if enough
    nodes can take their part. If not, they all go on one, as on a machine of our own: CPU ranks share its cores, and one GPU
    is requested for all of them.
    """
    custom = settings.resources.get(cell.device, {})
    if cell.device == "sim":
        return Needs(nodes=1, ranks=1, resources={"CPU": 1, "memory": SIM_BYTES, **custom})
    ranks = rank_count(cell)
    per_rank = "GPU" if cell.device == "cuda" else "CPU"
    most = int(max((node.has.get(per_rank, 0) for node in nodes), default=0))
    here = _ranks_on_each(ranks, settings.ranks_per_node or max(1, most))
    requested = {per_rank: float(here), **custom}
    if here < ranks and _fitting_nodes(requested, nodes) < ranks // here:
        here, requested = ranks, {per_rank: float(min(ranks, most)) if per_rank == "CPU" else 1.0, **custom}
    return Needs(nodes=ranks // here, ranks=here, resources={"CPU": 1.0, **requested})


def alike(needed: Needs, nodes: Sequence[ClusterNode]) -> list[list[ClusterNode]]:
    """Return the nodes that can take their part of such a cell, grouped by their CPUs and GPUs; kinds with too few nodes are
    left out. The most frequent kind comes first."""
    kinds: dict[tuple[float, float], list[ClusterNode]] = {}
    for node in nodes:
        if _node_has(node, needed.resources):
            kinds.setdefault(node.kind, []).append(node)
    return sorted((kind for kind in kinds.values() if len(kind) >= needed.nodes), key=len, reverse=True)


def whole_node(node: ClusterNode, needed: Needs) -> dict[str, float]:
    """Return the request for a node on which nothing else can run: every CPU and GPU that it has."""
    every = {name: node.has[name] for name in ("CPU", "GPU") if node.has.get(name)}
    return {**{name: amount for name, amount in needed.resources.items() if name != "memory"}, **every}


def missing_resources(needed: Needs) -> str:
    """Return why it cannot be placed: ``no node in the cluster has 4 CPUs and 1 A100``."""
    each = " and ".join(_resource_text(amount, name) for name, amount in needed.resources.items() if name != "memory")
    if needed.nodes > 1:
        return f"the cluster has fewer than {needed.nodes} nodes with {each}"
    return f"no node in the cluster has {each}"


def _ranks_on_each(ranks: int, at_most: int) -> int:
    """Return the largest even share up to ``at_most``."""
    return next(each for each in range(min(ranks, at_most), 0, -1) if ranks % each == 0)


def _resource_text(amount: float, name: str) -> str:
    return f"{amount:g} {name}s" if name in ("CPU", "GPU") and amount != 1 else f"{amount:g} {name}"


def _fitting_nodes(requested: Mapping[str, float], nodes: Sequence[ClusterNode]) -> int:
    return sum(_node_has(node, requested) for node in nodes)


def _node_has(node: ClusterNode, requested: Mapping[str, float]) -> bool:
    return all(node.has.get(name, 0) >= amount for name, amount in requested.items())
