"""The three ways to walk a step: metered, profiled, timed. Never two at once, so that none disturbs another."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dsregress.probe.border.wire import Clocks, RoundCost
from dsregress.probe.framework import Stopwatch, Training
from dsregress.probe.meters.host_work import HostWork
from vgpu.watching.metered_phases import Phase


def walk(training: Training, phase: Phase) -> None:
    """Walk one step: ``phase(name)`` is entered around each forward, backward and step."""
    training.next_batch()
    for micro_batch in range(training.micro_batches):
        for _ in range(getattr(training, "backwards", 1)):
            with phase("forward"):
                training.forward(micro_batch)
            with phase("backward"):
                training.backward(micro_batch)
        with phase("step"):
            training.step(micro_batch)


class ProfiledPhases:
    """Calls by phase and function."""

    def __init__(self) -> None:
        self.work: dict[str, HostWork] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        with without_collection(), self.work.setdefault(name, HostWork()):
            yield


class HostStopwatch:
    """A stopwatch for devices that have finished their work when a call returns."""

    def start(self) -> None:
        """Do nothing: the host's clock needs no start."""

    def mark(self) -> float:
        """Return a mark of this moment."""
        return time.perf_counter()

    def stop(self) -> None:
        """Do nothing: the host's clock needs no stop."""

    def seconds(self, begin: float, end: float) -> float:
        """Return the seconds between two marks."""
        return end - begin

    def clocks(self) -> Clocks | None:
        """Return None: the host does not report its clocks."""
        return None


class TimedPhases:
    """Seconds by phase of one round, and the round's cost for this process."""

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch
        self._before = self.cost = RoundCost(0.0, 0, 0, 0)
        self._marks: list[tuple[str, Any, Any]] = []

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begin = self._stopwatch.mark()
        yield
        self._marks.append((name, begin, self._stopwatch.mark()))

    def round(self, training: Training) -> dict[str, float]:
        """Walk one step and return its seconds by phase."""
        self.begin()
        walk(training, self)
        return self.end()

    def begin(self) -> None:
        """Begin a round."""
        self._before = _cost_so_far()
        self._stopwatch.start()

    def end(self) -> dict[str, float]:
        """End the round and return its seconds by phase."""
        self._stopwatch.stop()
        now, before = _cost_so_far(), self._before
        self.cost = RoundCost(
            now.processor_s - before.processor_s,
            now.page_faults - before.page_faults,
            now.waits - before.waits,
            now.preemptions - before.preemptions,
        )
        seconds: dict[str, float] = {}
        for name, begin, end in self._marks:
            seconds[name] = seconds.get(name, 0.0) + self._stopwatch.seconds(begin, end)
        return seconds


def _cost_so_far() -> RoundCost:
    """Return the cost of this process and all its threads so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return RoundCost(time.process_time(), used.ru_minflt + used.ru_majflt, used.ru_nvcsw, used.ru_nivcsw)


def announced(phase: Phase, announce: Callable[[str], None]) -> Phase:
    """Return the same phases, each announced before it begins, so that a crash is attributed to one."""

    @contextmanager
    def announcing(name: str) -> Iterator[None]:
        announce(name)
        with phase(name):
            yield

    return announcing


@contextmanager
def without_collection() -> Iterator[None]:
    """Disable cyclic garbage collection within the block: its timing depends on counters, and measurements must repeat."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
