"""Cells and environments -> results, each stored as soon as its cell has ended.

A workload is timed on all its stacks in one session, in turns; exact measurements run in parallel.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from dsregress.config.settings import Settings
from dsregress.launch import schedule
from dsregress.launch.contract import Cluster, Ended, Executor
from dsregress.launch.timed import timed_sessions
from dsregress.launch.untimed import run_parallel
from dsregress.model import Cell, Environment, Hardware, Result, Stack
from dsregress.run.cell_matrix import CellMatrix
from dsregress.run.decide import decide, is_timed
from dsregress.run.eta import expected_s, guessed_s
from dsregress.run.pace import Budget, least_rounds, run_plan
from dsregress.run.watch import Watch
from dsregress.store import SCHEMA, Store, detail_hashes, key_in, measuring_version, newest_by_cell
from dsregress.store.reuse import why_not_reused
from dsregress.store.schema import key_parts_in
from dsregress.system import clock
from dsregress.wording.quantities import left_text

_LOG = logging.getLogger(__package__)


@dataclass(frozen=True, kw_only=True)
class MeasureContext:
    """The executor, the store and the settings that cells are measured with."""

    settings: Settings
    executor: Executor
    hardware: Hardware
    store: Store
    watch: Watch
    cluster: Cluster | None = None  #: in place of that of the executor


def measure_cells(
    cells: CellMatrix,
    environments: Sequence[Environment],
    baseline: Stack,
    context: MeasureContext,
    *,
    fresh: bool,
) -> list[Result]:
    """Return a result for every cell, from the store or from a run made now, in the order of the cells.

    Raise ResultsError if one cannot be stored, KeyboardInterrupt; every process is gone then, and everything measured is
    stored.
    """
    settings, store = context.settings, context.store
    step_times = sum(len(members) - 1 for members in cells.workloads.values() if is_timed(members[0]))
    running = _Measurement({env.stack.id: env for env in environments}, context, step_times)
    runs: dict[str, tuple[Result, ...]] = {cell.id: () if fresh else running.stored_runs(cell) for cell in cells.cells}
    todo = decide(cells, runs, baseline, least_rounds(settings), context.executor.probe_sha256())
    wanted = [cell for members in todo.run.values() for cell in members]
    if _LOG.isEnabledFor(logging.DEBUG):
        for cell in wanted:
            why = "all is measured again" if fresh else running.why_not_reused(cell)
            _LOG.debug("%s: run: %s", cell.id, why or "the step times of its workload are compared with it")
    known_s = expected_s(wanted, store)
    context.watch.measuring(wanted, len(newest_by_cell(todo.reused)), {**guessed_s(wanted, known_s, store), **known_s})
    results = list(todo.reused)
    try:
        results.extend(running.run(todo.run))
    finally:
        running.close()
    order = {cell.id: at for at, cell in enumerate(cells.cells)}
    return sorted(results, key=lambda result: order[result.cell.id])  # in input order, not completion order


#: Clock corrections below this are not reported.
_UNNOTICED_S = 120.0


class _Measurement:
    """Environments in, results out, stored one by one."""

    def __init__(self, environments: Mapping[str, Environment], context: MeasureContext, step_times: int) -> None:
        self._environments = environments
        self._hardware = context.hardware
        self._settings = context.settings
        self._executor = context.executor
        self._cluster = context.cluster or context.executor.cluster(context.hardware)
        self._step_times = max(1, step_times)
        self._store = context.store
        self._watch = context.watch
        self._run = clock.name_of_session()
        self._said_set_back = False

    def stored_runs(self, cell: Cell) -> tuple[Result, ...]:
        """Return the stored runs of a cell's content, the oldest first, named as in this call."""
        loaded = self._store.of_cell(cell, key_in(self._environment(cell), cell, hardware=self._hardware))
        for problem in loaded.problems:
            self._watch.note(f"left out: {problem}")
        return tuple(msgspec.structs.replace(result, cell=cell) for result in loaded.results)

    def why_not_reused(self, cell: Cell) -> str:
        """Say why no stored result of the cell is reused; empty where one could be."""
        parts = key_parts_in(self._environment(cell), cell, hardware=self._hardware)
        rounds = least_rounds(self._settings) if is_timed(cell) else 0
        return why_not_reused(self._store.runs(cell), parts, rounds, self._executor.probe_sha256())

    def run(self, workloads: Mapping[str, Sequence[Cell]]) -> Iterator[Result]:
        """Run timed workloads first, each on all its stacks; then exact ones, whatever else runs. Yield their results."""
        runnable: dict[str, list[Cell]] = {}
        for workload, members in workloads.items():
            for cell in members:
                failure = self._environment(cell).failure
                if failure is None:
                    runnable.setdefault(workload, []).append(cell)
                else:
                    self._watch.event(schedule.Started(cell))
                    ended = Ended(outcome=failure, started_at=clock.stamp())
                    yield self._keep(schedule.Finished(cell, ended), self._run)
        plan = run_plan(self._settings)
        timed = {name: members for name, members in runnable.items() if plan.rounds and is_timed(members[0])}
        untimed = [cell for name, members in runnable.items() if name not in timed for cell in members]
        pace = self._pace(list(timed.values()))
        for event, number in timed_sessions(self._cluster, list(timed.values()), plan, self._environment, pace):
            yield from self._take_event(event, self._run if number == 1 else f"{self._run}.{number}")
        self._cluster.keep_workers_for(untimed)
        for event in run_parallel(self._cluster, untimed, self._environment):
            yield from self._take_event(event, self._run)

    def _pace(self, sessions: Sequence[Sequence[Cell]]) -> schedule.Pace:
        settings = self._settings
        if settings.rounds is not None:
            return schedule.ALL_ROUNDS
        return Budget(settings.budget_s, len(sessions), self._step_times, settings.thresholds)

    def close(self) -> None:
        """Close the cluster."""
        self._cluster.close()

    def _take_event(self, event: schedule.Event, session: str) -> Iterator[Result]:
        """Store an ended cell, then report it."""
        if isinstance(event, schedule.Finished):
            yield self._keep(event, session)
            if event.ended.left:
                self._watch.note(f"{event.cell.id} {left_text(event.ended.left)}")
        schedule.log_event(event)
        self._watch.event(event)

    def _keep(self, event: schedule.Finished, session: str) -> Result:
        cell, ended = event.cell, event.ended
        environment = ended.environment or self._environment(cell)
        result = Result(
            schema=SCHEMA,
            cell=cell,
            lock_sha256=environment.lock_sha256,
            code_sha256=environment.code_sha256,
            probe_sha256=self._executor.probe_sha256(),
            measuring_version=measuring_version(cell.device, cell.framework),
            installed=environment.installed,
            demands=environment.demands,
            hardware=ended.hardware or self._hardware,
            session=session,
            started_at=self._dated(cell, ended.started_at or clock.stamp()),
            duration_s=ended.duration_s,
            outcome=ended.outcome,
            record=ended.record,
            detail_sha256=detail_hashes(ended.detail) if ended.detail is not None else {},
            image=environment.image,
            left=dict(ended.left),
        )
        self._store.write(result, ended.detail, ended.benchmark)
        return result

    def _dated(self, cell: Cell, started_at: str) -> str:
        """Return the time at which the cell's run began; after all its stored runs, whatever the clock shows, so that it
        counts as the newest."""
        last = self._store.last_run(cell)
        if last is None or started_at > last.started_at:
            return started_at
        dated = clock.behind(started_at, last.started_at)
        if dated > started_at and not self._said_set_back and clock.seconds_between(started_at, dated) > _UNNOTICED_S:
            self._said_set_back = True
            self._watch.note(
                f"this machine's clock says {started_at}, and a run of {cell.id} is stored that began at {last.started_at}: "
                "the clock is, or was, wrong; what is measured now is dated behind the stored runs"
            )
        return dated

    def _environment(self, cell: Cell) -> Environment:
        return self._environments[cell.environment_stack.id]
