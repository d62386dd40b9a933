"""Timed workloads: each in sessions on a machine that is held for it, as many at a time as the cluster has machines.

Cells that a lost machine had not reported run again on another. The end of a cell is reported once. A cell that has lost its
machine `TRIES` times ends with that, as it may be the cell that brings machines down.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence

import msgspec

from dsregress.launch import schedule
from dsregress.launch.contract import Cluster, Lost, Machine, RunPlan
from dsregress.launch.schedule import ALL_ROUNDS, MOST_LANES, TRIES, Event, Finished, Pace, Rerun, given_up
from dsregress.launch.workers import OPEN_CELL_BYTES, OWN_RANK_BYTES, cores, rank_count
from dsregress.model import Cell, Environment, Hardware, Passed

EnvironmentOf = Callable[[Cell], Environment]

#: Share of a machine's memory for ranks in huge pages; the rest is for the servers that they are forked from.
_MOST_OF_MEMORY = 0.75

#: Busy cores that exceed the background work of an idle machine.
_BUSY_CORES = 0.25


def timed_sessions(
    cluster: Cluster,
    workloads: Sequence[Sequence[Cell]],
    plan: RunPlan,
    environment_of: EnvironmentOf,
    pace: Pace = ALL_ROUNDS,
) -> Iterator[tuple[Event, int]]:
    """Return the events of all workloads, each with the number of its session in its workload, from 1. The first cell of a
    workload is its baseline. Raise EnvironmentUnavailable if the cluster has no machine for a workload.

    Cells that passed are reported when their session has ended, also by an interruption: until then, their machine may be
    lost, and their times have no pair.
    """
    left = deque(workloads)
    at_once = max((cluster.machines_at_once(members[0]) for members in workloads), default=0)

    def lane() -> Generator[tuple[Event, int], None, None]:
        held = _HeldMachine(cluster)
        while left:
            try:
                members = left.popleft()
            except IndexError:  # another lane was faster
                break
            yield from _sessions(members, held, plan, environment_of, pace)
        held.release()  # on an error the cluster is closed, which ends its workers at once

    lanes = [lane() for _ in range(min(max(1, at_once), len(workloads), MOST_LANES))]
    if len(lanes) == 1:  # in the caller's thread, so that nothing of ours runs during a timed round
        return lanes[0]
    return schedule.merged(lanes)


class _HeldMachine:
    """The machine that a lane holds."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._machine: Machine | None = None

    def machine_for(self, cell: Cell) -> Machine:
        """Return the machine that is held if the cell fits it; else hold another one."""
        if self._machine is not None and not self._machine.fits(cell):
            self.release()
        if self._machine is None:
            self._machine = self._cluster.hold(cell)
        return self._machine

    def release(self) -> None:
        """Release the machine, if one is held."""
        if self._machine is not None:
            self._machine.release()
            self._machine = None


def _sessions(
    members: Sequence[Cell], held: _HeldMachine, plan: RunPlan, environment_of: EnvironmentOf, pace: Pace
) -> Iterator[tuple[Event, int]]:
    """Yield the events of a workload's sessions: one, unless it has more cells than the machine's memory holds open."""
    numbers = itertools.count(1)
    for group in _session_groups(members, _open_at_most(held.machine_for(members[0]).hardware)):
        yield from _until_reported(group, held, plan, environment_of, pace, numbers)


def _until_reported(
    group: Sequence[Cell],
    held: _HeldMachine,
    plan: RunPlan,
    environment_of: EnvironmentOf,
    pace: Pace,
    numbers: Iterator[int],
) -> Iterator[tuple[Event, int]]:
    """Yield the events of one session; if its machine is lost, of another one with the cells that have not ended."""
    left = list(group)
    for attempt in range(1, TRIES + 1):
        passed: list[tuple[Event, int]] = []
        number = 0
        try:
            machine = held.machine_for(left[0])
            for members in _session_groups(left, _open_at_most(machine.hardware)):  # another machine may hold fewer
                number = next(numbers)
                for event in _run_session(members, machine, plan, environment_of, pace):
                    if isinstance(event, Finished) and isinstance(event.ended.outcome, Passed):
                        passed.append((event, number))
                        continue
                    if isinstance(event, Finished) and event.cell in left:
                        left = [cell for cell in left if cell != event.cell]
                    yield event, number
            yield from passed
            return
        except Lost as lost:
            held.release()
            for cell in left:
                yield (Rerun(cell, str(lost)) if attempt < TRIES else Finished(cell, given_up(lost))), number
        except (Exception, KeyboardInterrupt):
            yield from passed  # an interruption loses nothing that was measured
            raise


def _run_session(
    members: Sequence[Cell], machine: Machine, plan: RunPlan, environment_of: EnvironmentOf, pace: Pace
) -> Iterator[Event]:
    """Run cells that take turns. Their untimed parts run in parallel as far as the cores allow."""
    workers = [machine.worker(environment_of(cell), cell) for cell in members]
    schedule.open_all(schedule.baseline_in_the_middle(workers), max(1, machine.hardware.cores))
    at_once = max(1, machine.hardware.cores // max(map(cores, members)))
    plan = session_plan(plan, members, machine)
    return schedule.interleave(list(zip(members, workers, strict=True)), plan, at_once, pace)


def session_plan(plan: RunPlan, members: Sequence[Cell], machine: Machine) -> RunPlan:
    """Return one plan for all cells of a session, because the memory layout and the turns of ranks affect the time of a
    step. The servers of the cells must be open and idle."""
    if any(cell.device != "cpu" for cell in members):
        return plan
    return msgspec.structs.replace(
        plan,
        huge_pages=room_for_huge_pages(members, machine.hardware),
        short_turns=machine.busy_cores() > _BUSY_CORES,
    )


def room_for_huge_pages(members: Sequence[Cell], hardware: Hardware) -> bool:
    """Return True if the memory is large enough for the huge pages of all ranks of a session, which they do not share."""
    return sum(map(rank_count, members)) * OWN_RANK_BYTES <= _MOST_OF_MEMORY * hardware.memory_bytes


def _open_at_most(hardware: Hardware) -> int:
    """Return the number of cells that the memory holds open at once."""
    return max(2, hardware.memory_bytes // OPEN_CELL_BYTES)


def _session_groups(members: Sequence[Cell], at_most: int) -> Iterator[list[Cell]]:
    """Yield members that can be held open at once; the first, the baseline, is measured again with each group."""
    if len(members) <= at_most:
        yield list(members)
        return
    first, rest = members[0], members[1:]
    for start in range(0, len(rest), at_most - 1):
        yield [first, *rest[start : start + at_most - 1]]
