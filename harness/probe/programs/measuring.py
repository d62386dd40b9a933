"""What one rank measures of a program, while the program runs and calls back.

A program is not walked step by step, as a job of ours is: it comes by. So its phases last until the next one begins:

- *init*: from the program's first line to the first call of a model that trains;
- *forward*: from there, and from the end of each step (what lies between: data, logging, generation), to a backward;
- *backward*: to the optimizer's step, clipping included, or to the next micro-batch's forward;
- *step*: the engine's or the optimizer's step.

The steps of the model that steps first are those that count; where several models train, the phases of one round of all
of them are folded into these four.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from harness.probe.border.encoding import free_value
from harness.probe.border.wire import Detail, Numerics, RankRecord
from harness.probe.framework import Meter
from harness.probe.holders.sites import SiteObserver
from harness.probe.meters.host_work import FUNCTIONS_KEPT
from harness.probe.meters.phases import (
    HostStopwatch,
    MeteredPhases,
    Phase,
    ProfiledPhases,
    TimedPhases,
    announced,
)
from harness.probe.process.channel import Channel
from harness.probe.process.rank_file import representable
from harness.probe.programs import facts, steps
from harness.probe.virtual_gpu.readings import Readings


class ProgramEnded(BaseException):
    """Everything is measured. Not an Exception, so that a program that catches those ends as well."""


class Measuring:
    """A `steps.Listener`. ``record`` and ``detail`` are complete once ``measured`` was called, at the end of the program's
    step ``warmup_steps + 1``, or of the next one where host work is counted too."""

    def __init__(
        self,
        *,
        rank: int,
        meter: Meter,
        simulated: bool,
        warmup_steps: int,
        announce: Callable[[str], None],
        measured: Callable[[], None],
        channel: Channel,
        observer: SiteObserver | None = None,
        readings: Readings | None = None,
    ) -> None:
        self._meter, self._simulated, self._warmup_steps = meter, simulated, warmup_steps
        self._announce, self._measured, self._channel = announce, measured, channel
        self._readings = readings  #: of a virtual GPU
        self._metered = MeteredPhases(meter, clocked=simulated)
        self._profiled = ProfiledPhases()
        self._timed: TimedPhases | None = None
        self._observer = observer  #: of a cell that is explained
        #: An explained cell needs no more, and in a simulation the profiler would count the simulation's own work.
        self._ends_metered = simulated or observer is not None
        self._phases: Phase = announced(self._metered if observer is None else self._observed, announce)
        self._phase = ""
        self._open: AbstractContextManager[None] = contextlib.nullcontext()
        self._metering = contextlib.ExitStack()
        self._leader: Any = None  #: the engine or optimizer that stepped first
        self._micro_losses: list[float] = []
        self._steps = 0  #: of the leader
        self._began = 0.0
        self._check: Callable[[], None] = lambda: None
        self.watch = steps.StepWatch(self)
        self.numerics = Numerics()
        self.record = RankRecord(rank=rank)
        self.detail = Detail()

    @property
    def steps(self) -> int:
        """Optimizer steps of the model that counts, so far."""
        return self._steps

    @property
    def wanted_steps(self) -> int:
        """How many are needed until all but rounds is measured."""
        return self._warmup_steps + (1 if self._ends_metered else 2)

    @property
    def is_simulated(self) -> bool:
        return self._simulated

    def begin(self, check: Callable[[], None] = lambda: None) -> None:
        """The program's first line is next. ``check`` is called when everything untimed is measured, and may refuse it."""
        self._check = check
        self._began = time.perf_counter()
        self._metering.enter_context(self._meter)
        self._enter("init")
        self.watch.await_forward()

    def end(self) -> None:
        """The program has ended, or is about to: nothing is metered any more."""
        self._leave()
        self._metering.close()

    # -- events ------------------------------------------------------------------------------------------------------

    def forward_begins(self, model: Any) -> None:
        if self._phase == "init":
            self.record.init_s = time.perf_counter() - self._began
            if self._observer is not None:
                self._leave()
                self._observer.built(model)
        if self._phase != "forward":
            self._enter("forward")
        self.watch.ignore_forward()

    def backward_begins(self, loss: Any) -> None:
        if not self._simulated:
            self._micro_losses += facts.scalar(loss)
        self._enter("backward")
        self.watch.await_forward()

    def step_begins(self) -> None:
        self.watch.ignore_forward()
        self._enter("step")

    def accumulated(self) -> None:
        self._enter("forward")

    def step_ended(self, stepper: Any) -> None:
        if self._leader is None:
            self._leader = stepper
        if stepper is self._leader:
            self._leave()
            self._count_step()
        self._enter("forward")

    # -- steps -------------------------------------------------------------------------------------------------------

    def _count_step(self) -> None:
        if self._timed is None and not self._simulated:
            self.numerics.losses.append(facts.mean(self._micro_losses))
            self.numerics.gradient_norms.append(facts.gradient_norm(self._leader))
        self._micro_losses = []
        self._steps += 1
        if self._readings is not None:
            self._readings.step = self._steps
        metered_at = self._warmup_steps + 1
        if self._steps < metered_at:
            self._keep_init()
            self._metered.readings = {}
            if self._observer is not None:
                self._observer.new_step()
        elif self._steps == metered_at:
            self._keep_init()
            self.record.phases.update(self._metered.readings)
            self._metering.close()
            self.detail.configuration = dict(free_value(facts.configuration(self._leader)))
            if self._ends_metered:
                self._finish()
            else:
                gc.freeze()
                self._phases = announced(self._profiled, self._announce)
        elif self._timed is None:
            for phase, work in self._profiled.work.items():
                functions = work.functions()
                if phase in self.record.phases:
                    self.record.phases[phase].host_calls = sum(functions.values())
                self.detail.host_functions[phase] = dict(list(functions.items())[:FUNCTIONS_KEPT])
            self._finish()
        else:
            seconds = self._timed.end()
            self._channel.send({"at": "round", "seconds": seconds, "clocks": None})
            self._await_round()

    def _observed(self, phase: str) -> AbstractContextManager[None]:
        assert self._observer is not None
        return self._observer.phase(phase, self._metered)

    def _keep_init(self) -> None:
        if "init" in self._metered.readings:
            self.record.phases["init"] = self._metered.readings.pop("init")

    def _finish(self) -> None:
        self._check()
        self._announce("measure")
        if not self._simulated and self._observer is None:
            facts.compare(self._leader, self.numerics)
        self.record.ideal_note = "a program: what it has to hold is not known"
        self.record.numerics = representable(self.numerics) if self.record.rank == 0 else None
        if self._readings is not None:
            self.record.readings = list(self._readings.taken)
        self._announce("step")
        self._measured()
        gc.collect()
        gc.freeze()
        self._await_round()

    def _await_round(self) -> None:
        """Waits for the host. Raises ProgramEnded where it wants no more rounds."""
        command = self._channel.receive()
        if command is None or command["do"] != "round":
            raise ProgramEnded
        self._timed = TimedPhases(HostStopwatch())
        self._timed.begin()
        self._phases = self._timed

    # -- phases ------------------------------------------------------------------------------------------------------

    def _enter(self, phase: str) -> None:
        self._leave()
        self._phase = phase
        self._open = self._phases(phase)
        self._open.__enter__()

    def _leave(self) -> None:
        opened, self._open, self._phase = self._open, contextlib.nullcontext(), ""
        opened.__exit__(None, None, None)
