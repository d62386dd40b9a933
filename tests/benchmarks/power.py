"""The power to find a longer step, and the rate at which a release is called slower than itself.

Sessions as `regress` has them: real ranks that train, a column for each release, rounds until a verdict. The releases are
synthetic: the baseline's environment, with an adapter that after each step sleeps, or computes, for a share of the step's
time.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from dsregress.compare import compare
from dsregress.compare.metrics import BY_NAME, STEP_TIME
from dsregress.config.settings import Settings
from dsregress.launch import schedule
from dsregress.launch.contract import Executor, Machine, Worker
from dsregress.launch.one_machine import OneMachine, ThisMachine
from dsregress.launch.schedule import Finished
from dsregress.launch.timed import session_plan
from dsregress.model import Cell, Environment, Hardware, Passed, Result
from dsregress.probe.scenario import BASE_VARIANT, Scenario
from dsregress.run.pace import Budget, run_plan
from dsregress.store import SCHEMA
from tests.benchmarks.figures import BenchmarkFigure, measured

SCENARIO = "llama_zero3_backward"

#: Processes that compute while the ranks do.
LOADS = (0, 1, 4)

SHARES = (0.03, 0.05, 0.10, 0.20)

#: The slowdown that must be found in nine of ten cases.
GOAL = 0.10

#: Releases, by their extra work.
_RELEASES = ("", *(f"{kind} {share}" for kind in ("sleeps", "computes") for share in SHARES))

#: The releases of a session besides the baseline: two each of those that must be found. Every other session has ten without
#: extra work.
_SLOWER = (*_RELEASES[1:], f"sleeps {GOAL}", f"computes {GOAL}")
_SAME = ("",) * len(_SLOWER)

_FOLDER, _ADAPTER = "scenarios", "made_up"

_SOURCE = """
import time

from dsregress.probe.frameworks import deepspeed
from dsregress.probe.frameworks.deepspeed import *

KIND, SHARE = {kind!r}, {share!r}


def start(*arguments):
    training = deepspeed.start(*arguments)
    next_batch, step = training.next_batch, training.step
    began = 0.0

    def begin():
        nonlocal began
        next_batch()
        began = time.perf_counter()

    def step_longer(micro_batch):
        nonlocal began
        step(micro_batch)
        more = SHARE * (time.perf_counter() - began)
        if KIND == "sleeps":
            time.sleep(more)
        until = time.thread_time() + more
        while KIND == "computes" and time.thread_time() < until:
            pass
        began = time.perf_counter()

    training.next_batch, training.step = begin, step_longer
    return training
"""


def adapters() -> dict[str, bytes]:
    """Return the synthetic releases' adapters, by their path in the folder that measured processes import from."""
    sources = {}
    for number, more in enumerate(_RELEASES):
        kind, _, share = more.partition(" ")
        source = _SOURCE.format(kind=kind, share=float(share or 0))
        sources[f"{_FOLDER}/{_ADAPTER}_{number}.py"] = source.encode()
    return sources


def run(
    environment: Environment,
    scenario: Scenario,
    executor: Executor,
    hardware: Hardware,
    settings: Settings,
    budget_s: float,
    session_s: float,
) -> Iterator[BenchmarkFigure]:
    """Run sessions for ``budget_s`` in all, at least two with each load, of ``session_s`` of timed rounds each. ``executor``
    must have the `adapters`, and closes what it started."""
    machine = ThisMachine(OneMachine(executor, hardware))
    workers = _WorkersByRelease(environment, executor, hardware.cores)
    for load in LOADS:
        seen = _Seen()
        for releases in (_SLOWER, _SAME):
            workers.of(("", *releases))  # imports are part of no load
        until = time.monotonic() + budget_s / len(LOADS)
        with _load(load):
            while seen.sessions < 2 or time.monotonic() < until:
                releases = (_SLOWER, _SAME)[seen.sessions % 2]
                pace = Budget(session_s, 1, len(releases), settings.thresholds)
                results, seconds = _session(environment, scenario, workers, machine, settings, releases, pace)
                seen.take(results, releases, seconds, settings)
        yield from seen.figures(f"step time beside {load} busy processes, {session_s:g} s for {len(_SLOWER)} pairs")


class _WorkersByRelease:
    """The workers of all sessions, shared by them."""

    def __init__(self, environment: Environment, executor: Executor, cores: int) -> None:
        self._environment, self._executor, self._cores = environment, executor, cores
        self._by_release: dict[str, list[Worker]] = defaultdict(list)

    def of(self, releases: Sequence[str]) -> list[Worker]:
        """Return an open worker for each of these."""
        taken: list[Worker] = []
        for at, more in enumerate(releases):
            number = releases[:at].count(more)
            if number == len(self._by_release[more]):
                self._by_release[more].append(self._executor.worker(self._environment, "cpu", _framework(more)))
            taken.append(self._by_release[more][number])
        schedule.open_all(schedule.baseline_in_the_middle(taken), self._cores)
        return taken


def _framework(more: str) -> str:
    return f"{_FOLDER}.{_ADAPTER}_{_RELEASES.index(more)}"


@contextlib.contextmanager
def _load(processes: int) -> Iterator[None]:
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: sum(range(100_000))"], stdin=subprocess.DEVNULL)
        for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _session(
    environment: Environment,
    scenario: Scenario,
    workers: _WorkersByRelease,
    machine: Machine,
    settings: Settings,
    releases: Sequence[str],
    pace: Budget,
) -> tuple[list[Result], float]:
    """Return the baseline's result, then one of each release, and the seconds of the timed rounds."""
    cells = []
    for number, more in enumerate(("", *releases)):
        stack = msgspec.structs.replace(
            environment.stack, versions={**environment.stack.versions, "made-up": str(number)}
        )
        cells.append(
            Cell(
                stack=stack,
                scenario=SCENARIO,
                scenario_version=scenario.version,
                variant=BASE_VARIANT,
                device="cpu",
                framework=_framework(more),
                parameters=scenario.resolve(BASE_VARIANT, "cpu"),
            )
        )
    ended: dict[str, Result] = {}
    began = 0.0
    members = list(zip(cells, workers.of(("", *releases)), strict=True))
    plan = session_plan(run_plan(settings), cells, machine)
    for event in schedule.interleave(members, plan, pace=pace):
        if isinstance(event, schedule.RoundStarted) and not began:
            began = time.monotonic()
        if isinstance(event, Finished):
            assert isinstance(event.ended.outcome, Passed), f"{event.cell.id}: {event.ended}"
            ended[event.cell.id] = _result(event, scenario.framework, machine.hardware)
    seconds = time.monotonic() - began
    return [ended[cell.id] for cell in cells], seconds


def _result(event: Finished, framework: str, hardware: Hardware) -> Result:
    """Return the result as that of a release with the baseline's adapter."""
    return Result(
        schema=SCHEMA,
        cell=msgspec.structs.replace(event.cell, framework=framework),
        lock_sha256="",
        code_sha256="",
        probe_sha256="",
        installed={},
        hardware=hardware,
        session="made-up",
        started_at=event.ended.started_at,
        duration_s=event.ended.duration_s,
        outcome=event.ended.outcome,
        record=event.ended.record,
    )


class _Seen:
    """The verdicts of the sessions with one load."""

    def __init__(self) -> None:
        self.sessions = 0
        self._found: dict[str, list[float]] = defaultdict(list)  #: release -> 100 where it was called slower, else 0
        self._found_by_wall: dict[str, list[float]] = defaultdict(list)
        self._has_verdict: list[float] = []
        self._alarms: list[float] = []
        self._rounds: list[float] = []
        self._seconds: list[float] = []
        self._scatter: list[float] = []
        self._scatter_of_processor: list[float] = []

    def take(self, results: Sequence[Result], releases: Sequence[str], seconds: float, settings: Settings) -> None:
        """Add the verdicts of one session."""
        self.sessions += 1
        self._seconds.append(seconds)
        comparison = compare(results, results[0].cell.stack.id, settings.thresholds, lambda result: None)
        of_time = (one for one in comparison.findings if BY_NAME[one.metric].family == STEP_TIME.family)
        found = {one.stack: one for one in of_time if one.relevant}  # as a report says it
        times = {time.stack: time for time in comparison.step_times}
        base, *others = results
        for result, more in zip(others, releases, strict=True):
            stack = result.cell.stack.id
            self._rounds.append(times[stack].pairs)
            self._has_verdict.append(100.0 * (times[stack].verdict != "unknown"))
            if more:
                is_slower = stack in found and found[stack].kind == "regression"
                self._found[more].append(100.0 * is_slower)
                self._found_by_wall[more].append(100.0 * (is_slower and found[stack].metric == STEP_TIME.name))
            else:
                self._alarms.append(100.0 * (stack in found))
                self._scatter.append(_scatter(_wall_s(result), _wall_s(base)))
                self._scatter_of_processor.append(_scatter(_processor_s(result), _processor_s(base)))

    def figures(self, section: str) -> Iterator[BenchmarkFigure]:
        """Yield the figures of the sessions so far."""
        for more in _RELEASES[1:]:
            kind, _, share = more.partition(" ")
            what = f"a release that {kind} {float(share):.0%} more: called slower"
            yield _share(section, what, self._found[more], "90" if float(share) == GOAL else "")
            yield _share(section, f"{what} by the wall's clock", self._found_by_wall[more])
        yield _share(section, "the same release: called slower or faster", self._alarms, "1 or less")
        yield _share(section, "pairs with a verdict: slower, faster or the same", self._has_verdict, "90")
        yield measured(section, "rounds of a pair", self._rounds, "rounds")
        yield measured(section, "timed rounds of a session", self._seconds, "s")
        yield measured(section, "the same release: scatter of a round's ratio", self._scatter, "%")
        yield measured(section, "the same by processor time", self._scatter_of_processor, "%")


def _share(section: str, what: str, values: Sequence[float], goal: str = "") -> BenchmarkFigure:
    unit = f"% of {len(values)}"
    return BenchmarkFigure(section=section, what=what, value=float(np.mean(values)), unit=unit, goal=goal)


def _wall_s(result: Result) -> Sequence[float]:
    return result.record.round_s if result.record is not None else ()


def _processor_s(result: Result) -> Sequence[float]:
    return [cost.processor_s for cost in result.record.costs] if result.record is not None else ()


def _scatter(own: Sequence[float], base: Sequence[float]) -> float:
    """Return half the width of the middle two thirds of the paired ratios, in per cent: their standard deviation if they
    were normal."""
    low, high = np.quantile([np.log(a / b) for a, b in zip(own, base, strict=False)], (0.16, 0.84))
    return float(50 * (high - low))
