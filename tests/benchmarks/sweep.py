"""A sweep of R releases by S scenarios over a cluster, on paper and as a simulated schedule.

What is simulated is how long cells take and where they go, by the very queue that real runs take them from
(`dsregress.launch.untimed.CellQueue`). Ray's own scheduling is not: a place that becomes free gets its next cell at once.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator

import msgspec

from dsregress.launch.untimed import CellQueue
from dsregress.launch.workers import WorkerKey, worker_key
from dsregress.model import Cell, Stack
from tests.benchmarks.figures import BenchmarkFigure


class SimulatedSweep(msgspec.Struct, frozen=True, kw_only=True):
    """The cells of a sweep, and the costs of its parts. Costs are those of docs/benchmarks.md and of the published
    results."""

    releases: int
    scenarios: int
    nodes: int
    workers_per_node: int
    cell_s: float = 8.1  #: median of the published simulations
    spread: float = 0.5  #: standard deviation of the logarithm of their durations
    import_s: float = 4.9  #: of the framework, when a worker begins on an environment
    build_s: float = 1.1  #: of an environment on a node, with its packages in the node's cache
    first_build_s: float = 3.4  #: of a node's first one, which unpacks what the others share
    builds_at_once: int = 2  #: on a node
    shared_bytes: int = 963_000_000  #: that a node's first environment brings from the index
    own_bytes: int = 11_000_000  #: that each further one brings
    index_bytes_per_s: float = 1.25e9  #: of the index, or its mirror, to all nodes together: 10 Gbit/s
    store_s: float = 0.002  #: for the driver to store a result; it stores one at a time
    seed: int = 1

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.releases * self.scenarios

    @property
    def workers(self) -> int:
        """Number of workers on all nodes."""
        return self.nodes * self.workers_per_node

    @property
    def mean_cell_s(self) -> float:
        """Mean of the lognormal distribution."""
        return self.cell_s * math.exp(self.spread**2 / 2)


class Paper(msgspec.Struct, frozen=True, kw_only=True):
    """The arithmetic cost of the sweep: seconds of each part, if it had everything for itself."""

    compute_s: float  #: cells, and one import for each worker, shared out evenly
    download_s: float  #: bytes of all environments over the index
    driver_s: float  #: results, one at a time

    @property
    def bottleneck(self) -> str:
        """The part that takes longest."""
        parts = {"compute": self.compute_s, "index": self.download_s, "driver": self.driver_s}
        return max(parts, key=parts.__getitem__)

    @property
    def least_s(self) -> float:
        """The lower bound of every schedule."""
        return max(self.compute_s, self.download_s, self.driver_s)

    @property
    def empty_s(self) -> float:
        """Time on nodes that are empty at first: downloads come before computation. Without the sweep's end, when workers
        run out of cells."""
        return max(self.download_s + self.compute_s, self.driver_s)


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a simulated schedule. Shares are of all workers' time until the end."""

    makespan_s: float
    in_cells: float
    in_imports: float
    waiting_for_environments: float  #: downloads and builds
    idle: float  #: at the end, when no cell is left
    environments: int  #: built, on all nodes
    imports: int
    stored_late_s: float  #: longest that a result waited for the driver

    @property
    def bottleneck(self) -> str:
        """The part with most of the workers' time, besides cells."""
        parts = {
            "imports": self.in_imports,
            "environments": self.waiting_for_environments,
            "idle at the end": self.idle,
        }
        return max(parts, key=parts.__getitem__)


def on_paper(sweep: SimulatedSweep) -> Paper:
    """Return the arithmetic cost. Each node needs at least one environment; each further one is a worker's that has gone on
    to another release."""
    busy_s = sweep.cells * sweep.mean_cell_s + min(sweep.workers, sweep.cells) * sweep.import_s
    environments = max(sweep.nodes, sweep.releases)
    brought = sweep.nodes * sweep.shared_bytes + (environments - sweep.nodes) * sweep.own_bytes
    return Paper(
        compute_s=busy_s / sweep.workers,
        download_s=brought / sweep.index_bytes_per_s,
        driver_s=sweep.cells * sweep.store_s,
    )


def simulate(sweep: SimulatedSweep) -> Schedule:
    """Return the schedule of the sweep's cells, simulated event by event."""
    chance = random.Random(sweep.seed)
    queue = CellQueue(_cells(sweep), shared=True)
    duration_s = {
        (release, scenario): chance.lognormvariate(math.log(sweep.cell_s), sweep.spread)
        for release in range(sweep.releases)
        for scenario in range(sweep.scenarios)
    }
    index = _PackageIndex(sweep)
    nodes = [_SimulatedNode(sweep, index) for _ in range(sweep.nodes)]
    # Workers of a node begin one after another, so that neighbours in the queue are on different nodes.
    free = [(0.0, worker) for worker in range(sweep.workers)]
    at: dict[int, WorkerKey] = {}
    ends: list[float] = []
    in_cells = in_imports = waiting = 0.0
    imports = 0
    while free:
        now, worker = heapq.heappop(free)
        turn = queue.take(at.get(worker))
        if turn is None:
            continue
        cell = turn.cell
        if at.get(worker) != worker_key(cell):
            at[worker] = worker_key(cell)
            there = nodes[worker % sweep.nodes].has_from(cell.stack.id, now)
            waiting += there - now
            now = there + sweep.import_s
            in_imports += sweep.import_s
            imports += 1
        took = duration_s[int(cell.stack.versions["framework"]), int(cell.scenario)]
        in_cells += took
        ends.append(now + took)
        heapq.heappush(free, (now + took, worker))
    stored, late = 0.0, 0.0
    for end in sorted(ends):
        stored = max(stored, end) + sweep.store_s
        late = max(late, stored - end)
    every = stored * sweep.workers
    return Schedule(
        makespan_s=stored,
        in_cells=in_cells / every,
        in_imports=in_imports / every,
        waiting_for_environments=waiting / every,
        idle=1 - (in_cells + in_imports + waiting) / every,
        environments=sum(len(node.built) for node in nodes),
        imports=imports,
        stored_late_s=late,
    )


class _PackageIndex:
    """The package index: one stream of bytes, shared by all."""

    def __init__(self, sweep: SimulatedSweep) -> None:
        self._bytes_per_s = sweep.index_bytes_per_s
        self._free_at = 0.0

    def brings(self, size: int, now: float) -> float:
        """Return the time at which ``size`` bytes have arrived."""
        self._free_at = max(self._free_at, now) + size / self._bytes_per_s
        return self._free_at


class _SimulatedNode:
    """A node's environments."""

    def __init__(self, sweep: SimulatedSweep, index: _PackageIndex) -> None:
        self._sweep = sweep
        self._index = index
        self._builders = [0.0] * sweep.builds_at_once
        self.built: dict[str, float] = {}

    def has_from(self, stack: str, now: float) -> float:
        """Return the time at which the stack's environment is ready, if it is requested now."""
        if stack not in self.built:
            first = not self.built
            arrived = self._index.brings(self._sweep.shared_bytes if first else self._sweep.own_bytes, now)
            if not first:
                arrived = max(arrived, min(self.built.values()))  # what they share is brought once
            builder = min(range(len(self._builders)), key=self._builders.__getitem__)
            took = self._sweep.first_build_s if first else self._sweep.build_s
            self._builders[builder] = max(self._builders[builder], arrived) + took
            self.built[stack] = self._builders[builder]
        return max(now, self.built[stack])


def _cells(sweep: SimulatedSweep) -> list[Cell]:
    stacks = [Stack(python="3.11", versions={"framework": str(release)}) for release in range(sweep.releases)]
    return [
        Cell(
            stack=stack,
            scenario=str(scenario),
            scenario_version=1,
            variant="base",
            device="sim",
            framework="framework",
            parameters={},
        )
        for stack in stacks
        for scenario in range(sweep.scenarios)
    ]


#: Ten thousand cells on a thousand workers, and where the bottleneck goes when one thing changes.
SWEEPS = {
    "10,000 cells, 1,000 workers": SimulatedSweep(releases=100, scenarios=100, nodes=125, workers_per_node=8),
    "the same, index at 1 Gbit/s": SimulatedSweep(
        releases=100, scenarios=100, nodes=125, workers_per_node=8, index_bytes_per_s=1.25e8
    ),
    "the same, environments there already": SimulatedSweep(
        releases=100,
        scenarios=100,
        nodes=125,
        workers_per_node=8,
        shared_bytes=0,
        own_bytes=0,
        first_build_s=0,
        build_s=0,
    ),
    "10,000 cells, 16 workers": SimulatedSweep(releases=100, scenarios=100, nodes=2, workers_per_node=8),
}


def run() -> Iterator[BenchmarkFigure]:
    """Yield the figures of the bench's section ``sweep``: simulated, on no machine."""
    for name, sweep in SWEEPS.items():
        paper, schedule = on_paper(sweep), simulate(sweep)
        estimate = (
            f"on paper {paper.least_s:,.0f} s at least, by {paper.bottleneck}; {paper.empty_s:,.0f} s on empty nodes"
        )
        yield BenchmarkFigure(
            section="sweep", what=f"{name}: all of it", value=schedule.makespan_s, unit="s", goal=estimate
        )
        shares = {
            "cells": schedule.in_cells,
            "imports": schedule.in_imports,
            "environments": schedule.waiting_for_environments,
            "idle at the end": schedule.idle,
        }
        for what, share in shares.items():
            yield BenchmarkFigure(
                section="sweep", what=f"{name}: {what}", value=100 * share, unit="% of the places' time"
            )
        yield BenchmarkFigure(section="sweep", what=f"{name}: environments built", value=schedule.environments, unit="")
