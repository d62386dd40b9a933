"""What one rank measures of a program, while the program runs and calls back.

A program is not walked step by step, as a job of ours is: it comes by. So its phases last until the next one begins:

- *init*: from the program's first line to the first call of a model that trains;
- *forward*: from there, and from the end of each step (what lies between: data, logging, generation), to a backward;
- *backward*: to the optimizer's step, clipping included, or to the next micro-batch's forward;
- *step*: the engine's or the optimizer's step.

*Occasions* (`harness.probe.programs.occasions`) interrupt these: what a program loads, generates, evaluates or saves is a
phase of its own, and a part of no other one. Steps that have none are common, so the last step that has one counts, be it a
warm-up. An *evaluate* that is no such call lasts as the others do: from the first call of a model that trains, in eval mode
and without gradients, to the next call that is none. Nothing is trained in *init*, so what is saved there is a part of it.

The steps of the model that steps first are those that count. Where several models train, these four are one round of all of
them, and each has its own beside them: ``backward of critic``.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from harness.probe.border.encoding import free_value
from harness.probe.border.faults import HARNESS
from harness.probe.border.wire import OCCASIONS, PHASES, REGULAR_PHASES, Detail, PhaseReading, RankRecord
from harness.probe.framework import Meter
from harness.probe.holders.sites import SiteObserver
from harness.probe.meters.host_work import FUNCTIONS_KEPT
from harness.probe.meters.phases import (
    HostStopwatch,
    MeteredPhases,
    ProfiledPhases,
    TimedPhases,
)
from harness.probe.process.channel import Channel
from harness.probe.process.rank_file import representable
from harness.probe.programs import facts, steps, trainer_settings
from harness.probe.programs.phase_walk import PhaseWalk, watched
from harness.probe.programs.saved import SavedState
from harness.probe.programs.trained_models import TrainedModels
from harness.probe.virtual_gpu.readings import Readings

#: Of these, a reading of an earlier step counts where the measured one has none.
_KEPT = ("init", *OCCASIONS)


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
        truth: facts.NumericsOracle | None = None,
    ) -> None:
        self._simulated, self._warmup_steps = simulated, warmup_steps
        self._announce, self._measured, self._channel = announce, measured, channel
        self._readings = readings  #: of a virtual GPU
        self._truth = truth  #: of real ranks
        self._models = TrainedModels()
        self._saved = SavedState(contents=not simulated)
        self._metered = MeteredPhases(meter, clocked=simulated, each=self._read)
        self._profiled = ProfiledPhases()
        self._timed: TimedPhases | None = None
        self._observer = observer  #: of a cell that is explained
        #: An explained cell needs no more, and in a simulation the profiler would count the simulation's own work.
        self._ends_metered = simulated or observer is not None
        self._walk = PhaseWalk(meter, watched(self._metered, observer), self._announce_untimed)
        self._interrupted: tuple[str, Any] | None = None  #: phase and engine before an occasion
        self._earlier: dict[str, PhaseReading] = {}  #: occasions of steps before this one
        self._engine: Any = None  #: whose call the phase at hand is, where that is known
        self._built: list[Any] = []  #: engines and models that the observer knows
        self._steps = 0  #: of the model that stepped first
        self._rates: list[float] = []  #: of the step at hand
        self._check: Callable[[], None] = lambda: None
        self.watch = steps.StepWatch(self)
        self.record = RankRecord(rank=rank)
        self.detail = Detail()

    @property
    def steps(self) -> int:
        """Optimizer steps of the model that counts, so far."""
        return self._steps

    @property
    def wanted_steps(self) -> int:
        """How many are needed at least. Host work takes one more, where it is counted."""
        return self._warmup_steps + 1

    @property
    def is_complete(self) -> bool:
        """Whether only timed rounds are left, of which a program runs no more than it has steps."""
        return self._timed is not None

    @property
    def is_simulated(self) -> bool:
        return self._simulated

    def begin(self, check: Callable[[], None] = lambda: None) -> None:
        """The program's first line is next. ``check`` is called when everything untimed is measured, and may refuse it."""
        self._check = check
        self._walk.begin()
        self.watch.await_forward()

    def program_ended(self) -> None:
        """It ended by itself. One that has taken the measured step has also done what programs do last, as the final
        checkpoint of those that are ended here is never seen; so it counts, without its host work."""
        if self._timed is None and self._steps > self._warmup_steps:
            self.record.notes.append(
                f"the program ended after {self._steps} optimizer steps: its calls of functions were not counted"
            )
            self._finish()

    def end(self) -> None:
        """The program has ended, or is about to: nothing is metered any more."""
        self._walk.end()

    # -- events ------------------------------------------------------------------------------------------------------

    def forward_begins(self, model: Any) -> None:
        self.watch.ignore_forward()
        if self._walk.name == "evaluate":
            self._enter("forward")
        if self._walk.name == "forward":
            return  # since the last step
        if self._walk.name == "init":
            self.record.init_s = self._walk.seconds
            self._walk.leave()
            self._show(model)
        self._enter("forward")
        self._models.called(model)
        if self._engine is None and facts.is_engine(model):
            self._engine = model

    def clipped(self, parameters: Sequence[Any], norm: Any) -> None:
        if self._records_numerics:
            self._models.clipped(parameters, facts.whole(norm))

    def resumed(self, engine: Any) -> None:
        self._models.resumed(engine)

    def evaluates(self, model: Any) -> None:
        if self._walk.name == "forward" and self._models.train(model):
            self._enter("evaluate")

    def occasion_begins(self, phase: str) -> None:
        if not self._walk.name or (phase == "save" and self._walk.name == "init"):
            return
        self._interrupted = self._walk.name, self._engine
        self._enter(phase)

    def occasion_ended(self, failed: bool) -> None:
        if self._interrupted is not None:
            (phase, engine), self._interrupted = self._interrupted, None
            self._enter(phase, engine, announced=not failed)  # else a program that ends by it would seem to end here

    def saves(self, what: Any) -> None:
        if self._timed is None:
            self._saved.add(what)

    def backward_begins(self, loss: Any, engine: Any) -> None:
        if self._records_numerics:
            self._models.lost(facts.scalar(loss), engine)
        self._enter("backward", engine)
        self.watch.await_forward()

    def step_begins(self, stepper: Any) -> None:
        self.watch.ignore_forward()
        self._rates = facts.learning_rates(stepper)  # a schedule may take its step within
        self._enter("step", stepper if facts.is_engine(stepper) else None)

    def accumulated(self) -> None:
        self._enter("forward")

    def step_ended(self, stepper: Any) -> None:
        self._walk.leave()
        model = self._models.stepped(stepper, self._rates, recorded=self._records_numerics)
        if facts.is_engine(stepper):
            self._show(stepper)
        if stepper is model.stepper and model is self._models.leader:
            self._count_step()
        self._enter("forward")
        self.watch.await_forward()

    def _show(self, model: Any) -> None:
        """Lets the observer know an engine, or the model that is called first."""
        if self._observer is not None and not any(model is known for known in self._built):
            self._built.append(model)
            self._observer.built(model)

    # -- steps -------------------------------------------------------------------------------------------------------

    def _count_step(self) -> None:
        if self._records_numerics and self._truth is not None:
            self._truth.stepped()
        self._steps += 1
        if self._readings is not None:
            self._readings.step = self._steps
        metered_at = self._warmup_steps + 1
        if self._steps < metered_at:
            self._earlier |= {p: reading for p, reading in self._metered.readings.items() if p in _KEPT}
            self._metered.readings = {}
            self._models.new_round()
            if self._observer is not None:
                self._observer.new_step()
        elif self._steps == metered_at:
            self._keep_phases()
            self._keep_models()
            self._walk.stop_metering()
            if self._ends_metered:
                self._finish()
            else:
                gc.freeze()
                self._walk.phases = self._profiled
        elif self._timed is None:
            for phase, work in self._profiled.work.items():
                functions = work.functions()
                if phase in self.record.phases:
                    self.record.phases[phase].host_calls = sum(functions.values())
                self.detail.host_functions[phase] = dict(list(functions.items())[:FUNCTIONS_KEPT])
            self._finish()
        else:
            seconds = self._timed.end()
            self._channel.send({"at": "round", "seconds": seconds, "cost": asdict(self._timed.cost), "clocks": None})
            self._await_round()

    def _keep_phases(self) -> None:
        measured = self._metered.readings
        self.record.earlier = [p for p in OCCASIONS if p in self._earlier and p not in measured]
        found = self._earlier | measured
        self.record.phases = {p: found[p] for p in PHASES if p in found}

    def _keep_models(self) -> None:
        """The configuration of each model, and where there are several also its phases; and that of a Trainer."""
        self.detail.configuration |= dict(free_value(trainer_settings.in_force()))
        for name, model in self._models.by_name().items():
            own = dict(free_value(facts.configuration(model.stepper)))
            if model is self._models.leader:
                self.detail.configuration |= own
            else:
                self.detail.configuration |= {f"{name}: {key}": value for key, value in own.items()}
            if self._models.are_several:
                self.record.phases |= {f"{phase} of {name}": reading for phase, reading in model.phases.items()}

    def _keep_numerics(self) -> None:
        """Of rank 0. A collective operation of all ranks. A simulation knows of values the learning rates alone."""
        for name, model in self._models.by_name().items():
            if self._observer is None and not self._simulated and not facts.has_left_its_group():
                trained = facts.gathered(model.stepper, model.numerics)
                if self._truth is not None and model is self._models.leader:
                    self._announce(HARNESS)
                    self._truth.judge(model.stepper, trained, model.numerics)
                    self._announce("measure")
            if self.record.rank != 0:
                continue
            if self._models.are_several:
                self.record.models[name] = representable(model.numerics)
            else:
                self.record.numerics = representable(model.numerics)

    @property
    def _records_numerics(self) -> bool:
        return self._timed is None and not self._simulated

    def _finish(self) -> None:
        self._check()
        self._announce("measure")
        self._keep_numerics()
        self.record.ideal_note = "a program: what it has to hold is not known"
        if self._readings is not None:
            self.record.readings = list(self._readings.taken)
        self.record.saved = self._saved.listed()
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
        self._walk.phases = self._timed

    # -- phases ------------------------------------------------------------------------------------------------------

    def _enter(self, phase: str, engine: Any = None, *, announced: bool = True) -> None:
        self._walk.leave()
        self._engine = engine
        self._walk.enter(phase, announced=announced)

    def _announce_untimed(self, phase: str) -> None:
        if self._timed is None:
            self._announce(phase)

    def _read(self, phase: str, reading: PhaseReading) -> None:
        if phase in REGULAR_PHASES and phase != "init":
            self._models.read(phase, reading, self._engine)
