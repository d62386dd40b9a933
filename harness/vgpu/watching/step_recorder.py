"""Records the figures of a program's phases while it runs, and ends it after some optimizer steps.

A phase lasts until the next one begins: *init* from the program's first line to the first call of a model that trains;
*forward* from there, and from the end of each step, to a backward; *backward* to the optimizer's step, clipping included, or
to the next micro-batch's forward; *step* is the engine's or the optimizer's. What is called in eval mode and without
gradients before a forward is *evaluate*.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from typing import Any

from vgpu.figures import PhaseMemory, PhaseReading
from vgpu.watching.metered_phases import MeteredPhases, PhaseMeter
from vgpu.watching.training_watch import TrainingWatch
from vgpu.watching.walking import PhaseWalk

#: Phases that a step need not have: the last one that ended counts.
_OCCASIONAL = ("init", "evaluate")


class StepsDone(BaseException):
    """Ends a program after the steps that were wanted. A BaseException, so that a program that catches Exception ends as
    well."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PhaseSpan:
    """One run of a phase."""

    name: str
    step: int  #: the optimizer step that it is part of, from 1 on
    reading: PhaseReading
    memory: PhaseMemory
    event: int  #: the position in the ledger's trace at its end


class StepRecorder:
    """A `TrainingListener`. ``memory_at_end`` returns a phase's memory when it has ended, and the position in the trace."""

    def __init__(
        self, meter: PhaseMeter, memory_at_end: Callable[[PhaseReading], tuple[PhaseMemory, int]], steps: int | None
    ) -> None:
        self.spans: list[PhaseSpan] = []
        self.steps = 0  #: of the optimizer or engine that stepped first or, once it is dropped, of the next one
        self.watch = TrainingWatch(self)
        self._memory_at_end = memory_at_end
        self._wanted = steps
        self._leader: Callable[[], Any] = lambda: None
        self._walk = PhaseWalk(meter, MeteredPhases(meter, clocked=True, each=self._ended), lambda phase: None)

    def begin(self) -> None:
        """Begin *init*: the program's first line is next."""
        self._walk.begin()
        self.watch.await_forward()

    def end(self) -> None:
        """End the open phase: the program has ended, or an exception that is being handled has ended it."""
        self._walk.end()

    def phases(self) -> dict[str, list[PhaseSpan]]:
        """Return the runs of each phase of the last whole step or, without one, of the first; those of *init* and
        *evaluate* are of the last step that had them."""
        counts = max(self.steps, 1)
        found: dict[str, list[PhaseSpan]] = {}
        for span in self.spans:
            occasional = span.name in _OCCASIONAL
            if span.step == counts or (occasional and span.step < counts):
                before = found.get(span.name, [])
                found[span.name] = [*(one for one in before if one.step == span.step), span]
        return found

    # -- events ------------------------------------------------------------------------------------------------------

    def forward_begins(self, model: object) -> None:
        self.watch.ignore_forward()
        if self._walk.name != "forward":  # else since the last step
            self._walk.enter("forward")

    def evaluates(self, model: Any) -> None:
        if self._walk.name in ("init", "forward") and any(each.requires_grad for each in model.parameters()):
            self._walk.enter("evaluate")

    def backward_begins(self, loss: object, engine: object) -> None:
        self._walk.enter("backward")
        self.watch.await_forward()

    def backward_ended(self) -> None: ...

    def step_begins(self, stepper: object) -> None:
        self.watch.ignore_forward()
        self._walk.enter("step")

    def accumulated(self) -> None:
        self._walk.enter("forward")
        self.watch.await_forward()

    def step_ended(self, stepper: object) -> None:
        self._walk.leave()
        if self._leader() is None:
            self._leader = weakref.ref(stepper)  # what the program drops is gone
        if stepper is self._leader():
            self.steps += 1
            if self.steps == self._wanted:
                raise StepsDone
        self._walk.enter("forward")
        self.watch.await_forward()

    def _ended(self, phase: str, reading: PhaseReading) -> None:
        memory, event = self._memory_at_end(reading)
        self.spans.append(PhaseSpan(name=phase, step=self.steps + 1, reading=reading, memory=memory, event=event))
