"""Cells and environments -> results, each stored as soon as its cell has ended.

A workload is timed on all its stacks in one session, in turns; what is exact runs in parallel.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timezone

from harness.config.settings import Settings
from harness.launch import schedule
from harness.launch.contract import Cluster, Ended, Executor, Machine, RunPlan, Worker
from harness.launch.ray import lanes
from harness.launch.ray.placing import SIM_BYTES
from harness.model import Cell, Environment, Hardware, Result, Stack
from harness.run.decide import decide, is_timed
from harness.run.eta import expected_s
from harness.run.matrix import Matrix
from harness.run.watch import Watch
from harness.store import SCHEMA, Store, detail_hashes, key_in, newest

#: Memory that one server with its ranks takes while a cell is open, and that a server takes which only has its framework
#: imported.
_OPEN_CELL_BYTES = 1 << 30
_IDLE_SERVER_BYTES = 1 << 29


def measure(
    cells: Matrix,
    environments: Sequence[Environment],
    baseline: Stack,
    hardware: Hardware,
    *,
    settings: Settings,
    executor: Executor,
    store: Store,
    watch: Watch,
    fresh: bool,
) -> list[Result]:
    """A result for every cell, from the store or from a run made now, in the order of the cells.

    Raises ResultsError when one cannot be stored, KeyboardInterrupt; every process is gone then, and what was measured
    is stored.
    """
    running = _Measurement(
        {env.stack.id: env for env in environments},
        hardware,
        settings,
        executor,
        store,
        watch,
    )
    keys = {cell.id: running.key(cell) for cell in cells.cells}
    todo = decide(cells, keys, baseline, settings.rounds, store, watch, fresh=fresh)
    wanted = [cell for members in todo.run.values() for cell in members]
    watch.measuring(wanted, len(newest(todo.reused)), expected_s(wanted, store))
    results = list(todo.reused)
    try:
        results.extend(running.run(todo.run))
    finally:
        running.close()
    order = {cell.id: at for at, cell in enumerate(cells.cells)}
    return sorted(results, key=lambda result: order[result.cell.id])  # and not as they happened to end


class _Measurement:
    """The machine at work: environments in, results out, stored one by one."""

    def __init__(
        self,
        environments: Mapping[str, Environment],
        hardware: Hardware,
        settings: Settings,
        executor: Executor,
        store: Store,
        watch: Watch,
    ) -> None:
        self._environments = environments
        self._hardware = hardware
        self._settings = settings
        self._executor = executor
        self._store = store
        self._watch = watch
        self._workers: dict[tuple[str, str, str], Worker] = {}
        self._run = f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"

    def key(self, cell: Cell) -> str:
        environment = self._environments[cell.stack.id]
        return key_in(environment, cell, probe_sha256=self._executor.probe_sha256(), hardware=self._hardware)

    def run(self, workloads: Mapping[str, Sequence[Cell]]) -> Iterator[Result]:
        """Timed workloads first, one after another, each on all its stacks; then what is exact whatever else runs, one
        stack beside another, on the same workers where these are open."""
        runnable: dict[str, list[Cell]] = {}
        for workload, members in workloads.items():
            for cell in members:
                failure = self._environments[cell.stack.id].failure
                if failure is None:
                    runnable.setdefault(workload, []).append(cell)
                else:
                    self._watch.event(schedule.Started(cell))
                    yield self._keep(
                        schedule.Finished(cell, Ended(outcome=failure, started_at=_now())),
                        self._run,
                    )
        timed = {name: members for name, members in runnable.items() if self._settings.rounds and is_timed(members[0])}
        untimed = [cell for name, members in runnable.items() if name not in timed for cell in members]
        if isinstance(self._executor, Cluster):
            yield from self._run_on_cluster(self._executor, list(timed.values()), untimed)
            return
        yield from self._run_timed(timed)
        self._close_workers(but={_worker_key(cell) for cell in untimed})
        yield from self._run_untimed(untimed)

    def close(self) -> None:
        self._executor.close()
        self._close_workers()

    def _run_timed(self, workloads: Mapping[str, Sequence[Cell]]) -> Iterator[Result]:
        for members in workloads.values():
            for event, session in self._sessions(members, self._worker, self._hardware):
                yield from self._take(event, session)

    def _sessions(
        self, members: Sequence[Cell], worker: Callable[[Cell], Worker], hardware: Hardware
    ) -> Iterator[tuple[schedule.Event, str]]:
        """A workload on a machine that nothing else uses: its events, each with the name of its session."""
        plan = RunPlan(warmup_rounds=self._settings.warmup_rounds, rounds=self._settings.rounds)
        at_most = max(2, hardware.memory_bytes // _OPEN_CELL_BYTES)
        for number, group in enumerate(_groups(members, at_most), start=1):
            workers = [worker(cell) for cell in group]
            schedule.open_all(workers, max(1, hardware.cores))
            session = self._run if number == 1 else f"{self._run}.{number}"
            # Untimed parts go together as far as each rank has a core.
            at_once = max(1, hardware.cores // max(map(_cores, group)))
            for event in schedule.interleave(list(zip(group, workers, strict=True)), plan, at_once):
                yield event, session

    def _run_on_cluster(
        self, cluster: Cluster, timed: Sequence[Sequence[Cell]], untimed: Sequence[Cell]
    ) -> Iterator[Result]:
        def on(machine: Machine, cell: Cell) -> Worker:
            return machine.worker(self._environments[cell.stack.id], cell.device, cell.framework)

        def anywhere(cell: Cell) -> Worker:
            return self._executor.worker(self._environments[cell.stack.id], cell.device, cell.framework)

        for event, session in lanes.timed(cluster, timed, self._sessions, on, _worker_key):
            yield from self._take(event, session)
        for event in lanes.untimed(cluster, untimed, anywhere, _worker_key):
            yield from self._take(event, self._run)

    def _run_untimed(self, cells: Sequence[Cell]) -> Iterator[Result]:
        """A worker is closed when its cells are done, so that a sweep over many releases does not hold them all in
        memory."""
        by_worker: dict[tuple[str, str, str], list[Cell]] = {}
        for cell in cells:
            by_worker.setdefault(_worker_key(cell), []).append(cell)
        room = self._hardware.memory_bytes - len(self._workers) * _IDLE_SERVER_BYTES
        at_once = max(1, min(self._hardware.cores, room // SIM_BYTES))
        jobs = [(self._worker(members[0]), members) for members in by_worker.values()]
        for event in schedule.run_parallel(jobs, at_once, _cores):
            yield from self._take(event, self._run)

    def _take(self, event: schedule.Event, session: str) -> Iterator[Result]:
        """Store what has ended, and only then say so."""
        if isinstance(event, schedule.Finished):
            yield self._keep(event, session)
        self._watch.event(event)

    def _keep(self, event: schedule.Finished, session: str) -> Result:
        cell, ended = event.cell, event.ended
        environment = ended.environment or self._environments[cell.stack.id]
        result = Result(
            schema=SCHEMA,
            cell=cell,
            lock_sha256=environment.lock_sha256,
            code_sha256=environment.code_sha256,
            probe_sha256=self._executor.probe_sha256(),
            installed=environment.installed,
            hardware=ended.hardware or self._hardware,
            session=session,
            started_at=ended.started_at,
            duration_s=ended.duration_s,
            outcome=ended.outcome,
            record=ended.record,
            detail_sha256=detail_hashes(ended.detail) if ended.detail is not None else {},
            image=environment.image,
        )
        self._store.write(result, ended.detail, ended.benchmark)
        return result

    def _worker(self, cell: Cell) -> Worker:
        key = _worker_key(cell)
        if key not in self._workers:
            environment = self._environments[cell.stack.id]
            self._workers[key] = self._executor.worker(environment, cell.device, cell.framework)
        return self._workers[key]

    def _close_workers(self, but: Collection[tuple[str, str, str]] = ()) -> None:
        for key in [key for key in self._workers if key not in but]:
            self._workers.pop(key).close()


def _worker_key(cell: Cell) -> tuple[str, str, str]:
    """Cells with the same key run on one worker: importing a framework takes seconds, and is the same for ``cpu`` and
    ``sim``."""
    return cell.stack.id, "cpu" if cell.device == "sim" else cell.device, cell.framework


def _cores(cell: Cell) -> int:
    """One for each rank. With fewer, ranks wait for ranks that do not run: two cells of two ranks took 7 s together on two
    cores, and 5.4 s one after the other. A simulation is one process."""
    return int(cell.parameters.get("world_size", 1)) if is_timed(cell) else 1


def _groups(members: Sequence[Cell], at_most: int) -> Iterator[list[Cell]]:
    """Members that can be held open at once; the first, the baseline, is measured again with each group."""
    if len(members) <= at_most:
        yield list(members)
        return
    first, rest = members[0], members[1:]
    for start in range(0, len(rest), at_most - 1):
        yield [first, *rest[start : start + at_most - 1]]


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
