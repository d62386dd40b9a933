"""Runs cells on a Ray cluster: one actor per probe server, which imports the framework once for all its cells.

An actor requests the resources of its cell, and Ray places it. A timed session holds whole nodes by a placement group of all
their CPUs and GPUs, so that nothing else runs there; ranks that span nodes get a group with a bundle on each
(STRICT_SPREAD). A cell whose node dies is Lost here, and `dsregress.launch.timed` and `untimed` run it again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dsregress.config.ray import Ray
from dsregress.errors import EnvironmentUnavailable, HarnessError
from dsregress.launch import staging
from dsregress.launch.contract import Ended, Lost, ProgramLaunch, RankShare, RunPlan, Waiting, Worker
from dsregress.launch.ray import cluster, spanning
from dsregress.launch.ray.node import NodeSide, NodeWorker, Opened
from dsregress.launch.ray.placing import ClusterNode, Needs, alike, missing_resources, needs_of_cell, whole_node
from dsregress.launch.workers import Workers
from dsregress.model import Cell, Environment, Hardware, LockedStack, OutOfMemory
from dsregress.system.other_work import busy_cores

#: How often to check that the cluster can still satisfy a pending request, in seconds.
_CHECK_S = 2.0

#: Seconds that an actor may take to close its server.
_CLOSE_S = 10.0

#: Seconds that the other parts of a cell may take to end by themselves once one of them has.
_OTHERS_END_S = 5.0

#: Seconds that they may take to end once they have been interrupted: as long as a keeper may.
_INTERRUPTED_S = 30.0

#: Text of Ray's error if it killed a process of ours because its node had no memory left.
_OUT_OF_MEMORY = "memory pressure"


class RayExecutor:
    """See `dsregress.launch.contract.Executor` and `Cluster`. Joins the cluster on first use.

    ``files`` is the code that measures, by `dsregress.launch.staging.probe_files`; ``side`` is the work done on nodes;
    ``programs`` are those in the files.
    """

    def __init__(
        self,
        *,
        settings: Ray,
        files: Mapping[str, bytes],
        side: NodeSide,
        timeout_s: float,
        programs: Mapping[str, ProgramLaunch] = {},
    ) -> None:
        self.settings = settings
        self.side = side
        self.timeout_s = timeout_s
        self._programs = dict(programs)
        self._files = files
        self._shipped: Any = None
        self._locked: dict[str, LockedStack] = {}
        self._held: Counter[tuple[float, float]] = Counter()  #: kind of node -> how many machines of it are held
        self._actors: set[Any] = set()  #: that are open
        self._groups: set[Any] = set()
        self._lock = threading.Lock()

    def probe_sha256(self) -> str:
        """Return the hash of the probe's code."""
        return staging.probe_sha256(self._files)

    def build(
        self, locked: Sequence[LockedStack], progress: Callable[[int, str, Environment | None], None]
    ) -> tuple[Environment, ...]:
        """Build each stack's environment on some node and return them in order; other nodes build theirs when they get a
        cell of it. Raise EnvironmentUnavailable."""
        ray = self._joined()
        make = ray.remote(_build_on_node).options(num_cpus=1, max_retries=3, scheduling_strategy="SPREAD")
        self._locked.update((lock.sha256, lock) for lock in locked)
        making = {make.remote(self.side, lock): index for index, lock in enumerate(locked)}
        for index in making.values():
            progress(index, "started", None)
        built: dict[int, Environment] = {}
        since = time.monotonic()
        while making:
            ready, _ = ray.wait(list(making), num_returns=1, timeout=_CHECK_S)
            if not ready and not self.nodes():
                self.give_up_after(since, "the cluster has no node")
            for done in ready:
                index = making.pop(done)
                with _node_errors():
                    built[index] = ray.get(done)
                progress(index, "done", built[index])
        return tuple(built[index] for index in range(len(locked)))

    def hardware(self) -> Hardware:
        """Return the hardware of the most frequent kind of node with GPUs, else of the most frequent kind. Raise
        EnvironmentUnavailable."""
        ray = self._joined()
        since = time.monotonic()
        while not (nodes := self.nodes()):
            self.give_up_after(since, "the cluster has no node")
            time.sleep(_CHECK_S)
        with_gpus = [node for node in nodes if node.has.get("GPU")]
        kind = alike(Needs(nodes=1, ranks=1, resources={"CPU": 1}), with_gpus or nodes)
        task = ray.remote(_hardware_of_node).options(
            num_cpus=0, scheduling_strategy=_options_for_node(kind[0][0] if kind else nodes[0])
        )
        with _node_errors():
            found: Hardware = ray.get(task.remote(self.side))
            return found

    def worker(self, environment: Environment, device: str, framework: str) -> RayWorker:
        """Return a worker of the environment, which is not open yet."""
        return RayWorker(self, self._locked[environment.lock_sha256], device, framework)

    def worker_inside(
        self, group: object, needed: Needs, environment: Environment, device: str, framework: str
    ) -> RayWorker:
        """Return a worker in a placement group that holds whole nodes: it requests nothing itself."""
        return RayWorker(self, self._locked[environment.lock_sha256], device, framework, held=(group, needed))

    shares_environments = True

    def cluster(self, hardware: Hardware) -> RayExecutor:
        """Return the machines that cells run on."""
        return self

    def slots(self, cell: Cell) -> int:
        """Return the number of slots that an untimed cell takes."""
        return 1  # Ray finds the place for its ranks

    def worker_for(self, environment: Environment, cell: Cell) -> RayWorker:
        """Return a worker for untimed cells like this one."""
        return self.worker(environment, cell.device, cell.framework)

    def keep_workers_for(self, cells: Sequence[Cell]) -> None:
        """Do nothing: workers of timed sessions were closed with their machines."""

    def workers_at_once(self) -> int:
        """Return the number of slots for untimed cells."""
        return int(sum(node.has.get("CPU", 0) for node in self.nodes()))

    def machines_at_once(self, cell: Cell) -> int:
        """Return the number of machines that can be held at once for cells like this one."""
        nodes = self.nodes()
        needed = needs_of_cell(cell, nodes, self.settings)
        return sum(len(kind) // needed.nodes for kind in alike(needed, nodes))

    def hold(self, cell: Cell) -> HeldNodes:
        """Wait for a machine for timed sessions, and return it."""
        since = time.monotonic()
        while True:
            nodes = self.nodes()
            needed = needs_of_cell(cell, nodes, self.settings)
            kinds = alike(needed, nodes)
            if not kinds:
                self.give_up_after(since, missing_resources(needed))
                time.sleep(_CHECK_S)
                continue
            with self._lock:  # the kind with the most nodes that no machine of ours holds
                kind = max(kinds, key=lambda kind: len(kind) - self._held[kind[0].kind] * needed.nodes)
                self._held[kind[0].kind] += 1
            group = self.group([whole_node(kind[0], needed)] * needed.nodes, kind)
            while not (placed := group.wait(_CHECK_S)) and _are_there(kind, self.nodes()):
                pass  # in use by others
            if placed:
                with contextlib.suppress(Lost):  # after it was placed
                    return HeldNodes(
                        self, group, kind[0].kind, needed, _on_first_node(group, _hardware_of_node, self.side)
                    )
            self.release(group, kind[0].kind)

    def nodes(self) -> list[ClusterNode]:
        """Return the nodes that are alive and have at least one CPU. Raise EnvironmentUnavailable."""
        with cluster.ray_errors(self.settings.address):
            found = self._joined().nodes()
        every = [
            ClusterNode(id=node["NodeID"], address=node["NodeManagerAddress"], has=cluster.totals(node))
            for node in found
            if node["Alive"]
        ]
        return [node for node in every if node.has.get("CPU", 0) >= 1]

    def needs(self, cell: Cell) -> Needs:
        """Return the needs of a cell, given the present nodes."""
        return needs_of_cell(cell, self.nodes(), self.settings)

    def group(self, bundles: Sequence[Mapping[str, float]], nodes: Sequence[ClusterNode] = ()) -> Any:
        """Return a placement group, which may not be placed yet: on one of ``nodes`` (none: of all), or with each bundle on
        another."""
        from ray.util.placement_group import placement_group

        self._joined()
        selector = {"ray.io/node-id": f"in({','.join(node.id for node in nodes)})"} if nodes else {}
        made = placement_group(
            [dict(bundle) for bundle in bundles],
            strategy="STRICT_SPREAD" if len(bundles) > 1 else "STRICT_PACK",
            bundle_label_selector=[selector] * len(bundles) if selector else None,
        )
        with self._lock:
            self._groups.add(made)
        return made

    def release(self, group: object, kind: tuple[float, float] | None = None) -> None:
        """Give a placement group back; if a machine was held, with its ``kind``."""
        from ray.util.placement_group import remove_placement_group

        with self._lock:
            self._groups.discard(group)
            if kind is not None:
                self._held[kind] -= 1
        with _ignore_missing():
            remove_placement_group(group)

    def actor(self, locked: LockedStack, device: str, framework: str, **options: object) -> Any:
        """Return a `NodeWorker`, which may not be placed yet."""
        ray = self._joined()
        if self._shipped is None:
            self._shipped = ray.put(dict(self._files))
        made = ray.remote(NodeWorker).options(max_concurrency=2, max_restarts=0, **options)
        actor = made.remote(self.side, self._shipped, locked, device, framework, self.timeout_s, self._programs)
        with self._lock:
            self._actors.add(actor)
        return actor

    def end(self, actor: object) -> None:
        """Kill an actor, and its server with it."""
        with self._lock:
            self._actors.discard(actor)
        with _ignore_missing():
            self._joined().kill(actor, no_restart=True)

    def could_run(self, needed: Needs) -> bool:
        """Return True if the cluster has enough nodes for it, busy or not."""
        return bool(alike(needed, self.nodes()))

    def close(self) -> None:
        """Close every worker."""
        with self._lock:
            actors, groups = list(self._actors), list(self._groups)
        for actor in actors:
            self.end(actor)
        for group in groups:
            self.release(group)

    def _joined(self) -> Any:
        """Join the cluster if necessary, and return the module ``ray``."""
        cluster.connect(self.settings)
        import ray

        return ray

    def give_up_after(self, since: float, why: str) -> None:
        """Raise EnvironmentUnavailable if the wait since that moment is longer than the settings allow."""
        if time.monotonic() - since > self.settings.wait_s:
            raise EnvironmentUnavailable(
                why,
                where=f"ray {self.settings.address}".strip(),
                hint="start more nodes (ray start --address=HEAD), or select other cells; `ray status` lists the resources",
            )


class HeldNodes:
    """See `dsregress.launch.contract.Machine`."""

    def __init__(
        self, executor: RayExecutor, group: object, kind: tuple[float, float], needed: Needs, hardware: Hardware
    ) -> None:
        self._executor = executor
        self._group = group
        self._kind = kind
        self._needed = needed
        self._workers = Workers(self._worker)
        self._hardware = hardware

    @property
    def hardware(self) -> Hardware:
        """Return the hardware of the machine."""
        return self._hardware

    def busy_cores(self) -> float:
        """Return the number of cores that other work keeps busy."""
        return float(_on_first_node(self._group, busy_cores))

    def fits(self, cell: Cell) -> bool:
        """Return True if the cell can run on the machine."""
        return self._executor.needs(cell) == self._needed

    def worker(self, environment: Environment, cell: Cell) -> Worker:
        """Return the worker for cells like this one."""
        return self._workers.worker(environment, cell)

    def _worker(self, environment: Environment, device: str, framework: str) -> RayWorker:
        return self._executor.worker_inside(self._group, self._needed, environment, device, framework)

    def release(self) -> None:
        """Give the machine back."""
        self._workers.close()
        if self._group is not None:
            self._executor.release(self._group, self._kind)
            self._group = None


class RayWorker:
    """See `dsregress.launch.contract.Worker`: an actor, or one on each node that a cell's ranks span. Its methods raise
    Lost."""

    def __init__(
        self,
        executor: RayExecutor,
        locked: LockedStack,
        device: str,
        framework: str,
        *,
        held: tuple[object, Needs] | None = None,
    ) -> None:
        """Start nothing. ``held``: the placement group of whole nodes that it is in, and its needs from them."""
        self._executor = executor
        self._server = (locked, device, framework)
        self._group: Any = held[0] if held else None
        self._needed: Needs | None = held[1] if held else None
        self._is_group_ours = False
        self._actors: list[Any] = []
        self._opening: list[Any] = []
        self._opened: list[Opened] = []

    def open(self) -> None:
        """Start importing the framework; return at once."""
        if self._actors or self._needed is None:  # where it goes, its first cell decides
            return
        for index in range(self._needed.nodes):
            if self._group is not None:
                inside = _in(self._group, index)
                bundle = {} if not self._is_group_ours else _options(self._needed.resources)
                options = {"num_cpus": 0, **bundle, "scheduling_strategy": inside}
            else:
                options = _options(self._needed.resources)
            self._actors.append(self._executor.actor(*self._server, **options))
        self._opening = [actor.open.remote() for actor in self._actors]

    def wait_until_open(self) -> None:
        """Wait until the framework is imported or cannot be."""

        import ray

        self.open()
        if self._opened or not self._opening:
            return
        assert self._needed is not None
        since = time.monotonic()
        while len(ray.wait(self._opening, num_returns=len(self._opening), timeout=_CHECK_S)[0]) < len(self._opening):
            if self._executor.could_run(self._needed):
                since = time.monotonic()
            self._executor.give_up_after(since, missing_resources(self._needed))
        self._opened = [_reply_value(reply) for reply in self._opening]

    def start(self, cell: Cell, plan: RunPlan) -> Waiting | Ended:
        """Run the untimed part of a cell."""
        if not self._is_held:
            self._request(self._executor.needs(cell))
        self.wait_until_open()
        if len(self._actors) == 1:
            return self._together([self._actors[0].start.remote(cell, plan, None)])
        assert self._needed is not None
        rendezvous = _reply_value(self._actors[0].rendezvous.remote())
        each = self._needed.ranks
        shares = [
            RankShare(rendezvous=rendezvous, first_rank=number * each, local_ranks=each)
            for number in range(len(self._actors))
        ]
        return self._together(
            [actor.start.remote(cell, plan, share) for actor, share in zip(self._actors, shares, strict=True)]
        )

    def round(self) -> Waiting | Ended:
        """Run one timed round of the waiting cell."""
        return self._together([actor.round.remote() for actor in self._actors])

    def stop(self) -> Ended:
        """End the waiting cell, which keeps its rounds."""
        ended = self._together([actor.stop.remote() for actor in self._actors])
        assert isinstance(ended, Ended)
        return ended

    def close(self) -> None:
        """End everything that the worker started."""

        import ray

        actors, self._actors, self._opening, self._opened = self._actors, [], [], []
        with _ignore_missing():
            ray.wait([actor.close.remote() for actor in actors], num_returns=len(actors), timeout=_CLOSE_S)
        for actor in actors:
            self._executor.end(actor)
        if self._is_group_ours:
            self._executor.release(self._group)
            self._group, self._is_group_ours = None, False

    @property
    def _is_held(self) -> bool:
        return self._group is not None and not self._is_group_ours

    def _request(self, needed: Needs) -> None:
        """Make this a worker with room for such cells."""
        if needed == self._needed and self._actors:
            return
        self.close()
        self._needed = needed
        if needed.nodes > 1:
            self._group = self._executor.group([needed.resources] * needed.nodes)
            self._is_group_ours = True

    def _together(self, replies: list[object]) -> Waiting | Ended:
        """Return the state of all parts. If one has ended, end the others."""
        try:
            states = self._states(replies)
        except _ClusterOutOfMemory as starved:
            self.close()
            return self._located(Ended(outcome=OutOfMemory(phase="", detail=str(starved))))
        waiting = [state for state in states if isinstance(state, Waiting)]
        if len(waiting) == len(states):
            return Waiting(max((state.round_s for state in waiting if state.round_s is not None), default=None))
        ended = [
            state if isinstance(state, Ended) else _reply_value(actor.stop.remote())
            for actor, state in zip(self._actors, states, strict=True)
        ]
        return self._located(spanning.merge_parts(ended) if len(ended) > 1 else ended[0])

    def _states(self, replies: list[object]) -> list[Waiting | Ended]:
        import ray

        left = list(replies)
        while left:
            ready, left = ray.wait(left, num_returns=1)
            if left and any(isinstance(_reply_value(reply), Ended) for reply in ready):
                _, late = ray.wait(left, num_returns=len(left), timeout=_OTHERS_END_S)
                self._interrupt([self._actors[replies.index(reply)] for reply in late], late)
                break
        return [_reply_value(reply) for reply in replies]

    def _interrupt(self, actors: Sequence[Any], replies: list[object]) -> None:
        """End the parts of a cell that wait for those that have ended. Raise Lost if one does not end even then."""
        import ray

        if not actors:
            return
        for actor in actors:
            actor.interrupt.remote()
        _, silent = ray.wait(replies, num_returns=len(replies), timeout=_INTERRUPTED_S)
        if silent:
            raise Lost(f"a part of the cell did not end within {_INTERRUPTED_S:.0f} s of being interrupted")

    def _located(self, ended: Ended) -> Ended:
        """Return the end with the hardware and environment it ran on."""
        if not self._opened:
            return ended
        where = self._opened[0]
        return msgspec.structs.replace(ended, hardware=where.hardware, environment=where.environment)


class _ClusterOutOfMemory(Lost):
    """Ray has killed an actor because its node had no memory left."""


def _reply_value(reply: Any) -> Any:
    """Return the value of a reply. Raise Lost, with the reason in its text, if it has none."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        return ray.get(reply)
    except RayTaskError as error:
        raise Lost(_one_line(error.cause)) from None
    except RayError as error:
        text = _one_line(error)
        if _OUT_OF_MEMORY in text:
            raise _ClusterOutOfMemory("Ray killed it, as its node had no memory left") from None
        raise Lost(text) from None


@contextlib.contextmanager
def _node_errors() -> Iterator[None]:
    """Turn the error of a node within the block into EnvironmentUnavailable."""
    from ray.exceptions import RayError, RayTaskError

    where, hint = "ray", "install the harness on every node (pip install 'dsregress[ray]'), as it is here"
    try:
        yield
    except RayTaskError as error:
        where = "a node of the cluster"
        if isinstance(error.cause, HarnessError):
            raise EnvironmentUnavailable(str(error.cause), where=where) from None
        raise EnvironmentUnavailable(_one_line(error.cause), where=where, hint=hint) from None
    except RayError as error:
        raise EnvironmentUnavailable(_one_line(error), where=where, hint=hint) from None


@contextlib.contextmanager
def _ignore_missing() -> Iterator[None]:
    """Ignore errors of Ray within the block: the object to be ended, or the cluster, may be gone already."""
    from ray.exceptions import RayError

    with contextlib.suppress(RayError, ConnectionError, EnvironmentUnavailable):
        yield


def _one_line(error: BaseException | None) -> str:
    if "node has died" in str(error) or "node died" in str(error) or "NodeDied" in type(error).__name__:
        return "its node died"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)}"[:300]


def _on_first_node(group: object, function: Callable[..., object], *arguments: object) -> Any:
    """Call a function on the first node of a placement group. Raise Lost."""
    import ray

    task = ray.remote(function).options(num_cpus=0, scheduling_strategy=_in(group, 0))
    return _reply_value(task.remote(*arguments))


def _options(resources: Mapping[str, float]) -> dict[str, Any]:
    """Return resources as the options of an actor."""
    known = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options: dict[str, Any] = {known[name]: amount for name, amount in resources.items() if name in known}
    others = {name: amount for name, amount in resources.items() if name not in known}
    return {**options, **({"resources": others} if others else {})}


def _in(group: Any, index: int) -> object:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    return PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=index)


def _options_for_node(node: ClusterNode) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node_id=node.id, soft=False)


def _are_there(nodes: Sequence[ClusterNode], alive: Sequence[ClusterNode]) -> bool:
    return {node.id for node in nodes} <= {node.id for node in alive}


def _build_on_node(side: NodeSide, locked: LockedStack) -> Environment:
    """Build a stack. Runs on a node."""
    return side.build(locked)


def _hardware_of_node(side: NodeSide) -> Hardware:
    """Return the node's hardware. Runs on a node."""
    return side.hardware()
