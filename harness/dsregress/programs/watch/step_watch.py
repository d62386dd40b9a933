"""Reports where a program is in its training, without modifying it: the calls of `vgpu.watching.training_watch`, and

- clipping, which is reported by itself (`watch.clipping_watch`), and is part of the call that it happens in;
- *occasions*: a single call that is none of these, such as generation or saving (`watch.occasion_watch`).
  Whatever runs within is part of it; what another thread does meanwhile, such as writing a checkpoint, is part of the
  program's current phase. A program's own evaluation is no occasion: it begins with the call of a module, like a forward.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch.utils.data import dataloader

from dsregress.programs.watch.clipping_watch import ClippingWatch
from dsregress.programs.watch.module_calls import when_left
from dsregress.programs.watch.occasion_watch import OccasionWatch
from vgpu.replacing import Patches
from vgpu.watching.training_watch import TrainingListener, TrainingWatch, wrap


class Listener(TrainingListener, Protocol):
    """Receives the events of one rank, in order."""

    def clipping_begins(self, parameters: Sequence[object], limit: float, norm_type: float) -> None:
        """Called before plain PyTorch clips the gradients of ``parameters`` to a norm of this order."""

    def clipped(self, parameters: Sequence[object], norm: object) -> None:
        """Called when plain PyTorch has clipped the gradients of ``parameters``; ``norm`` is their norm before."""

    def resumed(self, stepper: object) -> None:
        """Called when an engine has loaded a checkpoint, or an optimizer its state."""

    def occasion_begins(self, phase: str) -> None:
        """Called when an occasion begins. ``phase`` is one of `dsregress.probe.border.wire.OCCASIONS`."""

    def occasion_ended(self, failed: bool) -> None:
        """Called when an occasion ended: the interrupted phase continues or, if it ``failed``, the program gets the
        exception."""

    def saves(self, what: object, file: object) -> None:
        """Called with the argument of a function that saves, in whichever thread."""

    def draws(self, indices: Any) -> None:
        """Called with the indices of a batch that a data loader of PyTorch draws."""


class CallListener(Listener, Protocol):
    """Listens to a program that does not train: each call of a model is a forward."""

    def forward_ended(self) -> None:
        """Called when the call has returned or failed."""


class StepWatch(TrainingWatch):
    """Reports events to a listener within the block, while the program runs; see the module."""

    def __init__(self, listener: Listener, engines: Iterable[object] | None = None) -> None:
        super().__init__(listener, engines)
        self._resumed, self._draws = listener.resumed, listener.draws
        self._occasions = OccasionWatch(self._occasion, listener.saves)
        self._clipping = ClippingWatch(listener.clipping_begins, listener.clipped)
        self._occasion_begins, self._occasion_ended = listener.occasion_begins, listener.occasion_ended

    def _watch(self, patches: Patches) -> None:
        super()._watch(patches)
        for engine in self._engine_classes():
            wrap(patches, engine, "load_checkpoint", self._loading)
        wrap(patches, torch.optim.Optimizer, "load_state_dict", self._loading)
        wrap(patches, dataloader._BaseDataLoaderIter, "_next_index", self._drawing)
        patches.enter_context(self._occasions)
        patches.enter_context(self._clipping)

    def look(self) -> None:
        """Watch what has been imported so far."""
        self._occasions.look()
        self._clipping.look()

    def _loading(self, original: Any) -> object:
        def load(stepper: object, *args: object, **kwargs: object) -> Any:
            out = original(stepper, *args, **kwargs)
            self._resumed(stepper)
            return out

        return load

    def _drawing(self, original: Any) -> Any:
        def next_index(iterator: object) -> Any:
            indices = original(iterator)
            self._draws(indices)
            return indices

        return next_index

    @contextlib.contextmanager
    def _occasion(self, phase: str) -> Iterator[None]:
        if self._inside or threading.get_ident() != self._thread:
            yield
            return
        failed = True
        self._occasion_begins(phase)
        self._inside += 1
        try:
            yield
            failed = False
        finally:
            self._inside -= 1
            self._occasion_ended(failed)


class CallWatch(StepWatch):
    """Reports each call of a model, whether it trains or not, and its end. Calls within it are part of it."""

    def __init__(self, listener: CallListener, engines: Iterable[object] | None = None) -> None:
        super().__init__(listener, engines)
        self._call_listener = listener

    def _module_called(self, module: Any, inputs: object) -> None:
        if self._inside or next(module.parameters(), None) is None:
            return
        self.look()
        self.ignore_forward()

        def ended() -> None:
            self._call_listener.forward_ended()
            self.await_forward()

        when_left(module, ended)
        self._call_listener.forward_begins(module)
