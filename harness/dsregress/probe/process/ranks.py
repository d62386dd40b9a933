"""The ranks of one cell, as forked processes: start, wait with a limit, drive round by round, reap."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsregress.probe.border import faults, logs, machine
from dsregress.probe.border.wire import STAGE_TIMEOUTS, Clocks, RoundCost
from dsregress.probe.process import whereabouts
from dsregress.probe.process.channel import Channel, Closed, Message, pair
from dsregress.probe.process.silent_work import SilentWork
from vgpu import process_control

#: Body of a rank, given its number and its end of the channel.
Body = Callable[[int, Channel], None]

#: How long to wait for the faults of the other ranks once one has failed: the first to arrive is not always the
#: first that happened.
_LATE_FAULTS_S = 2.0

#: How often a round is tried while a GPU is throttled. It cools down while it waits for the other stacks' rounds.
_TRIES = 3


@dataclass(frozen=True, kw_only=True)
class TimedRound:
    """One timed round."""

    seconds: dict[str, float]  #: by phase, of the slowest rank
    cost: RoundCost  #: of all ranks
    clocks: Clocks | None  #: of a throttled rank, else of the rank clocked lowest; None if no GPU reports them
    discarded: int  #: throttled rounds before it


class EnoughRounds(Exception):
    """No further timed round is needed, or a program that ends by itself has none left."""


class CellEnded(Exception):
    """The cell cannot continue. Fields as in wire.RunRecord; with a ``machine_fault``, that is the outcome."""

    def __init__(
        self,
        outcome: str,
        stage: str,
        signature: str,
        detail: str = "",
        machine_fault: str = "",
        whereabouts: Sequence[str] = (),
    ) -> None:
        super().__init__(f"{outcome} in {stage}: {signature}")
        self.outcome = "machine_fault" if machine_fault else outcome
        self.stage, self.signature, self.detail, self.machine_fault = stage, signature, detail, machine_fault
        self.whereabouts = [*whereabouts]


@dataclass
class _RankProcess:
    number: int
    pid: int
    channel: Channel
    log: Path
    stage: str = "init"
    open: bool = True
    is_kept: bool = False  #: what it measured is on disk, and its program runs on
    is_over: bool = False  #: it has nothing left to do


class Ranks:
    """Processes forked from this one: the ranks of ``world_size`` that run ``here``. A context manager: on exit, ranks
    that still run are killed."""

    def __init__(
        self,
        body: Body,
        here: Sequence[int],
        world_size: int,
        folder: Path,
        variables: Mapping[str, str],
        timeout_s: float,
        beat: Callable[[str], None] = lambda stage: None,
    ) -> None:
        self._body = body
        self._folder = folder
        self._variables = dict(variables)
        self._timeout_s = timeout_s
        self._beat = beat
        self._is_whole = len(here) == world_size  #: no rank is on another machine
        self._kernel_kills = machine.kernel_out_of_memory_kills()
        self._ranks: list[_RankProcess] = [self._fork(number, here, world_size) for number in here]

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def measured(self) -> list[str]:
        """Wait until every rank has taken its untimed measurements, and return the modules that they imported lazily.
        Raise CellEnded if a rank fails, EnoughRounds if every rank has kept them and one has run on for long enough."""
        imported: list[str] = self._gather("measured")[0]["imported"]
        return imported

    def round(self) -> TimedRound:
        """Run one timed round on all ranks, and return it. A round with a throttled GPU is discarded and run again, up
        to ``_TRIES`` times in all; the last one is kept, with its clocks. Ranks that span machines keep every round,
        because one machine cannot repeat a round alone. Raise CellEnded if a rank fails, EnoughRounds if it has no
        rounds left."""
        for discarded in range(_TRIES if self._is_whole else 1):  # noqa: B007 (how many were discarded before the one that is kept)
            self._send({"do": "round"})
            replies = self._gather("round")
            slowest = max(replies, key=lambda reply: sum(reply["seconds"].values()))
            all_clocks = [Clocks(**reply["clocks"]) for reply in replies if reply.get("clocks")]
            clocks = min(all_clocks, key=lambda clocks: (not clocks.throttled, clocks.sm_mhz), default=None)
            if clocks is None or not clocks.throttled:
                break
        costs = [reply["cost"] for reply in replies]
        cost = RoundCost(**{name: sum(one[name] for one in costs) for name in costs[0]})
        return TimedRound(seconds=slowest["seconds"], cost=cost, clocks=clocks, discarded=discarded)

    def kill(self) -> None:
        """Kill all ranks. Their measurements are on disk, so they have nothing to finish."""
        for rank in self._ranks:
            if rank.open:
                rank.open = False
                try:
                    os.kill(rank.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                os.waitpid(rank.pid, 0)
                rank.channel.close()

    def _fork(self, number: int, here: Sequence[int], world_size: int) -> _RankProcess:
        ours, theirs = pair()
        log = self._folder / f"rank-{number}.log"
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid:
            theirs.close()
            return _RankProcess(number, pid, ours, log)
        code = 1
        try:
            process_control.die_with_parent(parent)
            os.register_at_fork(after_in_child=theirs.close)  # what a rank leaves running does not hide its end
            for number_of_signal in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number_of_signal, signal.SIG_DFL)  # the parent may handle them
            ours.close()
            handle = logs.open_log(log)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            whereabouts.report_stack_on_signal(self._folder, number)
            os.environ.update(self._variables, RANK=str(number), WORLD_SIZE=str(world_size),
                              LOCAL_RANK=str(here.index(number)), LOCAL_SIZE=str(len(here)),
                              LOCAL_WORLD_SIZE=str(len(here)))  # fmt: skip
            code = _run_body(self._body, number, theirs)
        finally:
            os._exit(code)  # no clean-up of what belongs to the parent, and no waiting for a framework's threads

    def _send(self, message: Message) -> None:
        for rank in self._ranks:
            if rank.open:
                try:
                    rank.channel.send(message)
                except Closed:
                    pass  # the next gathering finds out how it ended

    def _gather(self, awaited: str) -> list[Message]:
        """Return the awaited message of every rank. One limit counts from the last sign of life of any rank, the other
        from the last stage that any has begun. Ranks that wait for one another are ended earlier, and silent ones that
        compute go on."""
        replies: dict[int, Message] = {}
        silent_work = SilentWork(self._timeout_s)
        watch = whereabouts.DeadlockWatch(self._folder) if self._is_whole else None
        deadline = time.monotonic() + self._timeout_s
        most_s = STAGE_TIMEOUTS * self._timeout_s
        stage_deadline = time.monotonic() + most_s
        while len(replies) < len(self._ranks):
            waiting = [rank for rank in self._ranks if rank.number not in replies and not rank.is_over]
            wake = deadline if watch is None else min(deadline, watch.next_look)
            ready = [rank for rank in waiting if rank.channel.pending] or select.select(
                [rank.channel for rank in waiting], [], [], max(0.0, wake - time.monotonic())
            )[0]
            if not ready and watch is not None and time.monotonic() < deadline:
                if watch.finds({rank.number: rank.pid for rank in waiting}):
                    raise self._stuck("deadlocked", waiting[0], "the ranks wait for one another")
                continue
            if not ready:
                deadline = time.monotonic() + self._silence_s(silent_work, waiting, stage_deadline)
                continue
            by_channel = {id(rank.channel): rank for rank in waiting}
            for channel_or_rank in ready:
                rank = channel_or_rank if isinstance(channel_or_rank, _RankProcess) else by_channel[id(channel_or_rank)]
                message = self._listen(rank)
                if message["at"] == awaited:
                    replies[rank.number] = message
                if self._is_enough(awaited, replies):
                    raise EnoughRounds
                deadline = time.monotonic() + self._timeout_s
                silent_work.reset()
                if watch is not None:
                    watch.begin()
                if message["at"] != "working":
                    stage_deadline = time.monotonic() + most_s
                elif time.monotonic() > stage_deadline:
                    raise self._still_working(rank)
        return [replies[number] for number in sorted(replies)]

    def _silence_s(self, silent_work: SilentWork, waiting: Sequence[_RankProcess], stage_deadline: float) -> float:
        """Return how much longer to wait for ranks whose time without a sign of life is over: they are observed first.
        Raise CellEnded if they do not compute, or have done so for too long."""
        pids = [rank.pid for rank in waiting]
        if observed_s := silent_work.observe(pids):
            return observed_s
        if not silent_work.is_seen(pids):
            raise self._stuck("timed_out", waiting[0], f"no sign of life for {self._timeout_s:g} s")
        if time.monotonic() > stage_deadline:
            raise self._still_working(waiting[0])
        self._beat(self._ranks[0].stage)
        return self._timeout_s

    def _still_working(self, rank: _RankProcess) -> CellEnded:
        return self._stuck("still_working", rank, f"not done after {STAGE_TIMEOUTS * self._timeout_s:g} s of work")

    def _is_enough(self, awaited: str, replies: Mapping[int, Message]) -> bool:
        """Return True if a rank has nothing left to do, and none has what it measured still to keep: ranks need not be
        equally far, if they do not talk to each other."""
        is_over = any(rank.is_over for rank in self._ranks)
        is_kept = all(rank.is_kept or rank.is_over or rank.number in replies for rank in self._ranks)
        return is_over and (is_kept or awaited != "measured")

    def _stuck(self, outcome: str, rank: _RankProcess, why: str) -> CellEnded:
        places = whereabouts.whereabouts_of_ranks(
            self._folder, {one.number: one.pid for one in self._ranks if one.open}
        )
        log = faults.tail(str(rank.log)) or ""
        if rank.stage == faults.HARNESS:  # an oracle's time, not the framework's
            outcome = "failed"
        return CellEnded(outcome, rank.stage, f"{why} in {rank.stage}", log, whereabouts=places)

    def _listen(self, rank: _RankProcess) -> Message:
        try:
            message = rank.channel.receive()
        except Closed:
            raise self._first_fault(rank, None) from None
        assert message is not None
        if message["at"] == "stage":
            rank.stage = message["stage"]
        if message["at"] in ("stage", "working"):
            self._beat(self._ranks[0].stage)  # whichever rank it is of, the cell is alive
        elif message["at"] == "kept":
            rank.is_kept = True
        elif message["at"] == "over":
            rank.is_over = True
        elif message["at"] == "failed":
            raise self._first_fault(rank, message)
        return message

    def _first_fault(self, rank: _RankProcess, message: Message | None) -> CellEnded:
        """Return the first fault, preferring one of a rank's own: one rank's fault makes the others fail in
        communication."""
        candidates = [(rank, message)]
        deadline = time.monotonic() + _LATE_FAULTS_S
        others = [other for other in self._ranks if other is not rank and other.open]
        while others and time.monotonic() < deadline:
            for other in list(others):
                try:
                    reply = other.channel.receive(0.05)
                except Closed:
                    candidates.append((other, None))
                    others.remove(other)
                    continue
                if reply is not None and reply["at"] == "stage":
                    other.stage = reply["stage"]
                elif reply is not None and reply["at"] == "failed":
                    candidates.append((other, reply))
                    others.remove(other)
        return self._ended(*min(candidates, key=lambda candidate: _blame_order(candidate[1])))

    def _ended(self, rank: _RankProcess, message: Message | None) -> CellEnded:
        if message is not None:
            return CellEnded(
                message["outcome"],
                message["stage"] or rank.stage,
                message["signature"],
                message["detail"],
                machine.of_lost_process(message["detail"], self._kernel_kills) or message["machine_fault"],
            )
        _, status = os.waitpid(rank.pid, 0)
        rank.open = False
        rank.channel.close()
        log = faults.tail(str(rank.log)) or ""
        if not os.WIFSIGNALED(status):
            signature = f"rank ended with exit code {os.WEXITSTATUS(status)}"
            return CellEnded("failed", rank.stage, signature, log, machine.of_death(signature, log, self._folder))
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL and machine.kernel_out_of_memory_kills() > self._kernel_kills:
            return CellEnded("failed", rank.stage, "killed by the kernel: out of memory", log, machine.MEMORY)
        signature = faults.signal_signature(number, faults.last_words(str(rank.log)))
        return CellEnded("failed", rank.stage, signature, log, machine.of_death(signature, log, self._folder))


def _blame_order(message: Message | None) -> int:
    """Return the sort key of a rank's end: ranks that died without a message, or of their machine, first, then errors of
    a rank's own, then errors about another rank."""
    if message is None or message["machine_fault"]:
        return 0
    return 2 if faults.blames_another_rank(message["signature"]) else 1


def _run_body(body: Body, number: int, channel: Channel) -> int:
    try:
        body(number, channel)
        return 0
    except Closed:
        return 0  # the cell's process is gone
    except BaseException as error:  # whatever ends a rank, the host must learn of it, its exits included
        with contextlib.suppress(Exception):  # it prints the error, which is a framework's own object
            traceback.print_exc()
        stage = faults.stage_of(error)
        message = {
            "at": "failed",
            "stage": stage,
            "outcome": "out_of_memory" if stage != faults.HARNESS and faults.is_out_of_memory(error) else "failed",
            "signature": faults.signature_of(error),
            "detail": faults.detail_of(error),
            "machine_fault": machine.of_error(error),
        }
        try:
            channel.send(message)
        except Closed:
            pass
        return 1
    finally:
        with contextlib.suppress(Exception):  # a framework may have closed or replaced them
            sys.stdout.flush()
            sys.stderr.flush()
