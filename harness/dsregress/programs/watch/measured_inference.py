"""Measures one rank of a program that does not train: it generates, scores or evaluates, and ends by itself.

Its phases:

- *init*: from the program's first line to the first call of a model, or to its first occasion other than loading;
- *forward*: from there to the program's end. What it holds is what is held when the last call of a model ends, because
  after that the program releases everything;
- *occasions*, as for a program that trains (see `watch.measured_training`).

All calls count, from the first one on: no step is a warm-up, and none is timed. A program that calls no model and saves
weights, as one that merges an adapter, has *init* alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from dsregress.probe.border.encoding import free_value
from dsregress.probe.border.wire import OCCASIONS, PHASES, Detail, RankRecord
from dsregress.probe.meters.used_packages import UsedPackages
from dsregress.programs.watch import stepper_facts
from dsregress.programs.watch.observed_rank import ObservedRank
from dsregress.programs.watch.phase_walk import watched_phase
from dsregress.programs.watch.saved_state import SavedState
from dsregress.programs.watch.step_watch import CallWatch, StepWatch
from dsregress.programs.world.program_errors import ProgramError
from vgpu.figures import PhaseReading
from vgpu.watching.metered_phases import MeteredPhases
from vgpu.watching.walking import PhaseWalk

#: Occasions that belong to *init* if they come before any call of a model.
_OF_INIT = frozenset(("save",))
#: Occasions that end *init*.
_END_INIT = frozenset(OCCASIONS) - {"load", "save", "offload_states", "reload_states"}


class Inference:
    """A `step_watch.CallListener`. ``record`` and ``detail`` are complete once the program has ended and `finish` was
    called."""

    steps: int = 0
    wanted_steps: int = 0

    def __init__(self, rank: ObservedRank) -> None:
        self.is_simulated = rank.is_simulated
        self._announce, self._measured = rank.announce, rank.measured
        self._goes_on = rank.goes_on
        self._observer = rank.observer
        self._readings = rank.readings
        self._metered = MeteredPhases(rank.meter, clocked=rank.is_simulated)
        self._walk = PhaseWalk(rank.meter, watched_phase(self._metered, rank.observer), rank.announce)
        self._check: Callable[[], None] = lambda: None
        self._interrupted = ""
        self._called = False  #: a model
        self._has_saved = False
        self._saved = SavedState(contents=not rank.is_simulated)
        self.watch: StepWatch = CallWatch(self)
        self.record = RankRecord(rank=rank.number)
        self.detail = Detail()

    @property
    def is_complete(self) -> bool:
        """Return True once the program has called a model, had an occasion that ends *init*, or saved weights: it may end
        then."""
        return self._called or self._has_saved or not _END_INIT.isdisjoint(self._metered.readings)

    def begin(self, check: Callable[[], None] = lambda: None) -> None:
        """Begin to measure: the program's first line is next. ``check`` is called once the program has ended, and may
        refuse it."""
        self._check = check
        self._packages = UsedPackages()
        self._walk.begin()
        self.watch.await_forward()

    def end(self) -> None:
        """Stop metering: the program has ended."""
        last: PhaseReading | None = self._metered.readings.get("forward")
        if self._walk.name != "forward":
            self._walk.end()
        elif last is None or self._observer is not None:
            self._walk.end(drop=True)
        else:
            self._walk.end()
            self._keep_retained(last)

    def program_ended(self) -> None:
        """Do nothing: `finish` is called when nothing of the program is left."""

    def finish(self) -> None:
        """Complete the record and announce that everything is measured. Raise what ``check`` raises."""
        self._check()
        self._announce("measure")
        self.record.phases = {p: self._metered.readings[p] for p in PHASES if p in self._metered.readings}
        if not self._called:
            self.record.uses = self._packages.named()
        self.record.goes_on = self._goes_on()
        self.record.ideal_note = "a program: what it has to hold is not known"
        if self._readings is not None:
            self.record.readings = list(self._readings.taken)
        self.record.saved, self.record.empty_files = self._saved.listed(), self._saved.empty_files()
        self._announce("forward")
        self._measured()

    # -- events ------------------------------------------------------------------------------------------------------

    def forward_begins(self, model: object) -> None:
        self._leave_init()
        if not self._called and self._observer is not None:
            self._observer.built(model)
        if not self._called:
            self.record.uses = self._packages.named()
        self._called = True
        self._configured_by(model)
        if self._walk.name != "forward":
            self._walk.enter("forward")

    def forward_ended(self) -> None:
        self._walk.enter("forward")

    def occasion_begins(self, phase: str) -> None:
        if not self._walk.name or (phase in _OF_INIT and self._walk.name == "init"):
            return
        if phase in _END_INIT:
            self._leave_init()
        self._interrupted = self._walk.name or "forward"
        self._walk.enter(phase)

    def occasion_ended(self, failed: bool) -> None:
        if self._interrupted:
            phase, self._interrupted = self._interrupted, ""
            self._walk.enter(phase, announced=not failed)  # else a program that fails by it would seem to end here

    def saves(self, what: object, file: object) -> None:
        self._has_saved = True
        self._saved.add(what, file)

    def draws(self, indices: object) -> None: ...

    def backward_begins(self, loss: object, engine: object) -> None:
        self._refuse("a backward pass")

    def backward_ended(self) -> None: ...

    def step_begins(self, stepper: object) -> None:
        self._refuse("an optimizer's step")

    def step_ended(self, stepper: object) -> None: ...

    def accumulated(self) -> None: ...

    def clipping_begins(self, parameters: Sequence[object], limit: float, norm_type: float) -> None: ...

    def clipped(self, parameters: Sequence[object], norm: object) -> None: ...

    def resumed(self, stepper: object) -> None: ...

    def evaluates(self, model: object) -> None: ...

    def _refuse(self, what: str) -> None:
        raise ProgramError(f"it trains, by {what}: measure it as a program that does, without --inference")

    def _configured_by(self, model: Any) -> None:
        """Record the configuration of the engine that is called, or that is a part of what is called."""
        if self.detail.configuration:
            return
        engine = next((module for module in model.modules() if stepper_facts.is_engine(module)), None)
        if engine is not None:
            self.detail.configuration = dict(free_value(stepper_facts.effective_configuration(engine)))

    # -- phases ------------------------------------------------------------------------------------------------------

    def _leave_init(self) -> None:
        if self._walk.name == "init":
            self.record.init_s = self._walk.elapsed_s
            self._walk.leave()

    def _keep_retained(self, last: PhaseReading) -> None:
        """Keep the memory retained after the last call of a model: of what comes after it only the peaks count, and
        nothing of it is explained."""
        self._metered.readings["forward"] = dataclasses.replace(
            self._metered.readings["forward"],
            device_retained_bytes=last.device_retained_bytes,
            host_retained_bytes=last.host_retained_bytes,
        )
