"""Measures one rank of a program while the program runs and calls back.

We observe a program's steps; we do not drive them as we do for built-in jobs. So each phase lasts until the next one
begins:

- *init*: from the program's first line to the first call of a model that trains;
- *forward*: from there, and from the end of each step (data, logging and generation included), to a backward;
- *backward*: to the optimizer's step, clipping included, or to the next micro-batch's forward;
- *step*: the engine's or the optimizer's step.

A program that runs on has one more, which is not measured: *exit*, in which it ends as an interpreter does.

*Occasions* (`watch.occasion_watch`) interrupt these: what a program loads, generates, evaluates or saves is
a phase of its own and part of no other. Many steps have none, so the last step that has one counts, even if it is a
warm-up step. An *evaluate* that is no such call lasts like the other phases: from the first call of a model that trains,
in eval mode and without gradients, to the next call that is none. Nothing is trained in *init*, so what is saved there
is part of it.

The steps of the model that steps first are those that count. If several models train, these four phases are one round of
all of them, and each model has its own in addition: ``backward of critic``.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from dsregress.probe.border.encoding import free_value
from dsregress.probe.border.faults import HARNESS
from dsregress.probe.border.wire import OCCASIONS, PHASES, REGULAR_PHASES, SHIFTED_TWICE, Detail, RankRecord
from dsregress.probe.meters.host_work import FUNCTIONS_KEPT
from dsregress.probe.meters.phases import HostStopwatch, ProfiledPhases, TimedPhases
from dsregress.probe.meters.used_packages import UsedPackages
from dsregress.probe.process.channel import Channel
from dsregress.probe.process.rank_file import representable
from dsregress.programs.watch import step_watch, stepper_facts, trainer_end, trainer_settings
from dsregress.programs.watch.evaluations import Evaluations
from dsregress.programs.watch.exit_handlers import ExitHandlers
from dsregress.programs.watch.fed_batches import FedBatches
from dsregress.programs.watch.kept_steps import KeptSteps
from dsregress.programs.watch.lasting_memory import LastingMemory
from dsregress.programs.watch.loader_workers import LoaderWorkers
from dsregress.programs.watch.logged_numbers import LoggedNumbers
from dsregress.programs.watch.observed_rank import ObservedRank
from dsregress.programs.watch.phase_walk import watched_phase
from dsregress.programs.watch.replicas import replicas_apart
from dsregress.programs.watch.sample_call import SampleCall
from dsregress.programs.watch.saved_state import SavedState
from dsregress.programs.watch.step_invariants import StepInvariants
from dsregress.programs.watch.trained_models import TrainedModels
from vgpu.figures import PhaseReading
from vgpu.watching.metered_phases import MeteredPhases
from vgpu.watching.walking import PhaseWalk

#: Phases for which a reading of an earlier step counts if the measured one has none.
_KEPT = ("init", *OCCASIONS)

#: How far a program that is measured runs on towards its end: optimizer steps, and seconds.
FURTHER_STEPS, FURTHER_S = 16, 30.0


class ProgramEnded(BaseException):
    """Ends a program once everything is measured. A BaseException, so that a program that catches Exception ends as
    well."""


@contextlib.contextmanager
def _unwatched(phase: str) -> Iterator[None]:
    """A phase of a program that runs on: nothing of it is measured."""
    yield


class Measuring:
    """A `step_watch.Listener`. ``record`` and ``detail`` are complete once ``measured`` was called: at the end of the
    program's step ``warmup_steps + 1``, or of the next one if host work is counted too. With ``runs_on``, the program then
    goes on for a few steps, so that what it does last is seen: it may save, evaluate, crash or hang; with ``until_saved``
    only if it has saved nothing since its first step: a base model that it saves before is no checkpoint."""

    def __init__(
        self,
        rank: ObservedRank,
        *,
        warmup_steps: int,
        channel: Channel,
        truth: stepper_facts.NumericsOracle | None = None,
        kept: KeptSteps | None = None,
        runs_on: bool = False,
        until_saved: bool = False,
    ) -> None:
        self._runs_on, self._until_saved = runs_on, until_saved
        self._last: tuple[int, float] | None = None  #: the step and the time at which a program that runs on is ended
        self._simulated, self._warmup_steps = rank.is_simulated, warmup_steps
        self._announce, self._keep, self._measured = rank.announce, rank.keep, rank.measured
        self._goes_on = rank.goes_on
        self._channel = channel
        self._readings = rank.readings
        self._truth = truth  #: of real ranks
        self._kept = kept  #: likewise
        self._evaluations = Evaluations(sees_functions=not rank.is_simulated)
        self._invariants = StepInvariants()
        self._lasting = LastingMemory(rank.meter)
        self._stepped_at = time.monotonic()
        self._metered_step_s = 0.0
        self._models = TrainedModels(contents=not rank.is_simulated)
        self._logged = LoggedNumbers()
        self._workers = LoaderWorkers()
        self._exits = ExitHandlers()
        self._sees_exit = runs_on
        self._is_stopping = False  #: its trainer has been told that it ends
        self._is_kept = False  #: there is nothing more to be known of a program that has run on
        self._fed = FedBatches(contents=not rank.is_simulated)
        self._saved = SavedState(contents=not rank.is_simulated)
        self._last_saved: object = None
        self._sample = SampleCall()
        self._metered = MeteredPhases(rank.meter, clocked=rank.is_simulated, each=self._read)
        self._profiled = ProfiledPhases()
        self._timed: TimedPhases | None = None
        self._observer = rank.observer
        #: An explained cell needs nothing else, and in a simulation the profiler would count the simulation's own work.
        self._ends_metered = rank.is_simulated or rank.observer is not None
        self._walk = PhaseWalk(rank.meter, watched_phase(self._metered, rank.observer), self._announce_untimed)
        self._interrupted: tuple[str, Any] | None = None  #: phase and engine before an occasion
        self._earlier: dict[str, PhaseReading] = {}  #: occasions of steps before this one
        self._engine: Any = None  #: whose call the current phase is, if known
        self._built: list[Any] = []  #: engines and models that the observer knows
        self._steps = 0  #: of the model that stepped first
        self._rates: list[float] = []  #: of the current step
        self._check: Callable[[], None] = lambda: None
        self.watch = step_watch.StepWatch(self)
        self.record = RankRecord(rank=rank.number)
        self.detail = Detail()

    @property
    def steps(self) -> int:
        """Return the number of optimizer steps so far of the model that counts."""
        return self._steps

    @property
    def wanted_steps(self) -> int:
        """Return the least number of steps needed. Host work needs one more, if it is counted."""
        return self._warmup_steps + 1

    @property
    def is_complete(self) -> bool:
        """Return True if only timed rounds are left, of which a program runs no more than it has steps, or what it does
        last."""
        return self._timed is not None or self._last is not None

    @property
    def is_simulated(self) -> bool:
        """Return True if the cell runs in ``sim``."""
        return self._simulated

    def begin(self, check: Callable[[], None] = lambda: None) -> None:
        """Begin to measure: the program's first line is next. ``check`` is called when everything untimed is measured,
        and may refuse it."""
        self._check = check
        self._packages = UsedPackages()
        self._walk.begin()
        self.watch.await_forward()
        self._evaluations.begin()
        self._workers.begin()
        if self._sees_exit:
            self._exits.begin()
        if self._kept is not None:
            self._kept.begin()

    def program_ended(self) -> None:
        """Finish if the program ended by itself after the measured step: the result then lacks host work, but has what
        programs do last, such as the final checkpoint, which is never seen of programs that are ended here."""
        if self._last is not None:
            self.record.ended, self.record.steps = True, self._steps
            self.record.saved_last = self._saved.listed()
            self._keep_lasting()
            self._load_back()
            self._keep_files()
            self._exit()
            self._hand_over()
        elif self._timed is None and self._steps > self._warmup_steps:
            self.record.notes.append(
                f"the program ended after {self._steps} optimizer steps: its calls of functions were not counted"
            )
            self.record.ended, self.record.steps, self._runs_on = not self._simulated, self._steps, False
            self._finish()

    def end(self) -> None:
        """Stop metering: the program has ended or is about to. If it failed while it ran on, what it did until then is
        kept."""
        if self._last is not None and not self._is_kept:
            self._keep_files()
            self._keep()
        self._walk.end()
        self._logged.end()
        self._workers.end()
        self._exits.end()

    # -- events ------------------------------------------------------------------------------------------------------

    def forward_begins(self, model: object) -> None:
        if not self._simulated:
            self._logged.watch_imported()
        self.watch.ignore_forward()
        if self._is_before_the_counted_step or self._last is not None or self._until_saved:
            self._fed.expect(model, self._steps + 1)
        if self._last is not None:
            self._sample.expect(model)
        if self._is_before_the_counted_step:
            self._evaluations.trains(model)
        if self._walk.name == "evaluate":
            self._enter("forward")
        if self._walk.name == "forward":
            return  # since the last step
        if self._walk.name == "init":
            self.record.init_s = self._walk.elapsed_s
            self._walk.leave()
            self._show(model)
        self._enter("forward")
        self._models.called(model)
        if self._engine is None and stepper_facts.is_engine(model):
            self._engine = model

    def clipping_begins(self, parameters: Sequence[object], limit: float, norm_type: float) -> None:
        if self._kept is not None:
            self._kept.clipping_begins(parameters, limit, norm_type)

    def clipped(self, parameters: Sequence[object], norm: object) -> None:
        if self._kept is not None:
            self._kept.clipped()
        if self._records_numerics:
            self._models.clipped(parameters, stepper_facts.whole_norm(norm))

    def resumed(self, stepper: object) -> None:
        self._models.take_up(stepper)

    def evaluates(self, model: object) -> None:
        self._end_at_last()
        if self._walk.name == "forward" and self._models.train(model):
            self._enter("evaluate")

    def occasion_begins(self, phase: str) -> None:
        if phase == "generate":
            self._end_at_last()
        if not self._walk.name or (phase == "save" and self._walk.name == "init"):
            return
        self._interrupted = self._walk.name, self._engine
        self._enter(phase)

    def occasion_ended(self, failed: bool) -> None:
        if self._interrupted is not None:
            (phase, engine), self._interrupted = self._interrupted, None
            self._enter(phase, engine, announced=not failed)  # else a program that ends by it would seem to end here

    def saves(self, what: object, file: object) -> None:
        self.record.saved_step = self._steps
        if self._timed is None:
            self._saved.add(what, file, [model.stepper for model in self._models.models])
        if self._last is not None:
            self._last_saved = what  # to be loaded again when the program has ended, though it drops it

    def draws(self, indices: object) -> None:
        if self._is_before_the_counted_step and self._walk.name not in OCCASIONS:
            self._fed.draw(indices)

    def backward_begins(self, loss: object, engine: object) -> None:
        if self._records_numerics:
            self._models.lost(stepper_facts.loss_values(loss), engine)
            if self._is_before_the_counted_step:
                self._invariants.new_backward()
        if self._kept is not None:
            self._kept.backward_begins(loss, engine)
        self._enter("backward", engine)
        self.watch.await_forward()

    def backward_ended(self) -> None:
        if self._kept is not None:
            self._kept.backward_ended()

    def step_begins(self, stepper: object) -> None:
        self.watch.ignore_forward()
        self._rates = stepper_facts.learning_rates(stepper)  # a schedule may take its step within
        if self._kept is not None:
            self._kept.step_begins(stepper)
        if self._judges_step_of(stepper):
            self._invariants.before_step(stepper, self._models.whole_of(stepper))
        self._enter("step", stepper if stepper_facts.is_engine(stepper) else None)

    def accumulated(self) -> None:
        self._enter("forward")

    def step_ended(self, stepper: object) -> None:
        self._walk.leave()
        if self._kept is not None:
            self._kept.step_ended(stepper)
        if self._judges_step_of(stepper):
            self._invariants.after_step(stepper, self._models.whole_of(stepper))
        rates = self._rates if self._last is None else None  # a step of a program that runs on belongs to no result
        model = self._models.stepped(stepper, rates, recorded=self._records_numerics)
        if stepper_facts.is_engine(stepper):
            self._show(stepper)
        if stepper is model.stepper and model is self._models.leader:
            self._count_step()
        self._enter("forward")
        self.watch.await_forward()

    def _show(self, model: object) -> None:
        """Give the observer an engine, or the model that is called first."""
        if self._observer is not None and not any(model is known for known in self._built):
            self._built.append(model)
            self._observer.built(model)

    # -- steps -------------------------------------------------------------------------------------------------------

    def _count_step(self) -> None:
        if self._records_numerics and self._truth is not None:
            self._truth.stepped()
        self._steps += 1
        if self._steps == 1:
            self.record.goes_on = self._goes_on()  # it has saved nothing yet that we load
        if self._readings is not None:
            self._readings.step = self._steps
        if self._last is not None:
            self._lasting.count()
        self._end_at_last()
        metered_at = self._warmup_steps + 1
        before, self._stepped_at = self._stepped_at, time.monotonic()
        if self._steps < metered_at:
            self._earlier |= {p: reading for p, reading in self._metered.readings.items() if p in _KEPT}
            self._metered.readings = {}
            self._models.new_round()
            if self._observer is not None:
                self._observer.new_step()
        elif self._steps == metered_at:
            self._metered_step_s = self._stepped_at - before
            self._evaluations.end()
            self._keep_phases()
            self._keep_models()
            self._walk.stop_metering()
            self.record.uses = self._packages.named()
            if self._ends_metered:
                self._finish()
            else:
                gc.freeze()
                self._walk.phases = self._profiled
        elif self._last is not None:
            return
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
        """Record the configuration of each model and of a Trainer and, if there are several models, the phases of each."""
        self.detail.configuration |= dict(free_value(trainer_settings.settings_in_force()))
        for name, model in self._models.by_name().items():
            own = (
                {} if model.stepper is None else dict(free_value(stepper_facts.effective_configuration(model.stepper)))
            )
            if model is self._models.leader:
                self.detail.configuration |= own
                self.detail.deepspeed_config = dict(free_value(stepper_facts.given_configuration(model.stepper)))
            else:
                self.detail.configuration |= {f"{name}: {key}": value for key, value in own.items()}
            if self._models.are_several:
                self.record.phases |= {f"{phase} of {name}": reading for phase, reading in model.phases.items()}

    def _keep_numerics(self) -> None:
        """Record the numerics on rank 0. Collective: every rank must call it. In `sim` only learning rates are known."""
        for name, model in self._models.by_name().items():
            is_there = model.stepper is not None and not stepper_facts.has_left_its_group()
            if self._observer is None and not self._simulated and is_there:
                trained = stepper_facts.gathered_parameters(model.stepper, model.numerics)
                apart = replicas_apart(model.shared)
                model.numerics.replicas_apart, model.numerics.apart_in = apart.ranks, apart.names
                model.keep_still_weights()
                whole = [] if model.whole is None else [model.whole]
                model.numerics.broken |= self._invariants.broken(model.stepper, whole)
                if model is self._models.leader:
                    model.numerics.dropping = self._evaluations.dropping
                    if self._fed.shifting:
                        model.numerics.broken[SHIFTED_TWICE] = self._fed.shifting[:1]
                if self._truth is not None and model is self._models.leader:
                    self._announce(HARNESS)
                    with self.watch.paused():
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
        return not self.is_complete and not self._simulated

    def _judges_step_of(self, stepper: object) -> bool:
        is_judged = self._records_numerics and self._is_before_the_counted_step
        return is_judged and not stepper_facts.is_engine(stepper)

    @property
    def _is_before_the_counted_step(self) -> bool:
        """Return True until the metered step has ended: what is done here would be counted as the program's work."""
        return self._steps < self.wanted_steps

    def _finish(self) -> None:
        self._check()
        self._announce("measure")
        self._keep_numerics()
        self.record.ideal_note = "a program: what it has to hold is not known"
        if self._readings is not None:
            self.record.readings = list(self._readings.taken)
        self.record.saved = self._saved.listed()
        self._keep_files()
        self._announce("step")
        if self._runs_on and not (self._until_saved and self.record.saved_step):
            self._last = self._steps + FURTHER_STEPS, time.monotonic() + FURTHER_S
            self._walk.phases = _unwatched
            self._keep()
            self._lasting.begin(metered=self._metered_step_s < FURTHER_S / FURTHER_STEPS)
            return
        if self.record.ended:
            self._exit()
        self._hand_over()

    def _load_back(self) -> None:
        """Load what models have saved of themselves, on the first rank: the program has ended."""
        if self.record.rank == 0:
            with self.watch.paused():
                self.record.loaded_otherwise = self._saved.loaded_otherwise(self._sample)

    def _exit(self) -> None:
        """Leave the program as an interpreter does, with all that it measured on disk: it may crash or hang."""
        if self._sees_exit:
            self._last = self._last or (self._steps, time.monotonic())
            self._keep()
            self._announce("exit")
            self._exits.run()

    def _keep_files(self) -> None:
        self.record.fed = self._fed.batches
        self.record.logged = list(self._logged.shown)
        self.record.loader_workers, self.record.idle_workers = self._workers.of_all, self._workers.idle
        self.record.empty_files, self.record.unsaved = self._saved.empty_files(), self._saved.unsaved()

    def _end_at_last(self) -> None:
        """End a program that has run on for long enough: by its trainer if there is one, whose end then follows."""
        if self._last is None:
            return
        is_late = time.monotonic() > self._last[1]
        if self._steps == self._last[0] and not (is_late or self._is_stopping) and trainer_end.ends_with_this_step():
            self._is_stopping, self._last = True, (self._steps + 1, time.monotonic() + FURTHER_S)
        elif self._steps >= self._last[0] or is_late:
            self.record.steps = self._steps
            self._keep_lasting()
            self._load_back()
            self._keep_files()
            self._keep()
            self._is_kept = True
            raise ProgramEnded

    def _keep_lasting(self) -> None:
        self._lasting.end()
        self.record.live_objects = self._lasting.objects
        self.record.live_tensor_bytes = self._lasting.tensor_bytes
        self.record.resident_bytes = self._lasting.resident_bytes

    def _hand_over(self) -> None:
        """Tell the host that everything untimed is measured, and wait for it."""
        self._is_kept = True
        self._measured()
        gc.collect()
        gc.freeze()
        self._await_round()

    def _await_round(self) -> None:
        """Wait for the host. Raise ProgramEnded if it requests no further round."""
        command = self._channel.receive()
        if command is None or command["do"] != "round":
            raise ProgramEnded
        self._timed = TimedPhases(HostStopwatch())
        self._timed.begin()
        self._walk.phases = self._timed

    # -- phases ------------------------------------------------------------------------------------------------------

    def _enter(self, phase: str, engine: object = None, *, announced: bool = True) -> None:
        self._walk.leave()
        self._engine = engine
        self._walk.enter(phase, announced=announced)

    def _announce_untimed(self, phase: str) -> None:
        if self._timed is None:
            self._announce(phase)

    def _read(self, phase: str, reading: PhaseReading) -> None:
        if phase in REGULAR_PHASES and phase != "init":
            self._models.read(phase, reading, self._engine)
