"""Where a program is in its training, without touching it: calls of the engine, or of what plain PyTorch offers.

Reported is the outermost call alone: an engine's ``backward`` calls the loss's, and an engine's ``step`` the optimizer's.

- With a DeepSpeed engine: ``engine.backward`` or ``loss.backward()``, and ``engine.step``. A pipeline's ``train_batch`` is
  none of these: its micro-batches' backwards are autograd's, and its step begins where the optimizer's does.
- Else (DDP, FSDP, accelerate's, plain): ``loss.backward()`` and the ``step`` of an optimizer. Optimizers that step in hooks
  of the backward, one per parameter, belong to it: their step is reported at its end.
- A forward begins with the first call of a module that trains.
- Clipping is reported by itself (`harness.probe.programs.clipping`), and is a part of what it is called in.
- What lasts one call and is none of these, as generation or saving, is an *occasion* (`harness.probe.programs.occasions`).
  Whatever runs within is a part of it, and what another thread does meanwhile, as it writes a checkpoint, is a part of
  whatever the program is in. An evaluation of a program's own is none: it begins as a forward does, by the call
  of a module.

So a step of accelerate's or of a Trainer is seen where it reaches these.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from harness.probe.programs.clipping import ClippingWatch
from harness.probe.programs.occasions import OccasionWatch
from harness.probe.replacing import Patches


class Listener(Protocol):
    """Gets the events of one rank, in order."""

    def forward_begins(self, model: Any) -> None:
        """A model, or the engine around it, is called, for the first time since the last backward or since the program
        began."""

    def backward_begins(self, loss: Any, engine: Any) -> None:
        """``engine`` is None where it is ``loss.backward()``."""

    def step_begins(self, stepper: Any) -> None: ...

    def step_ended(self, stepper: Any) -> None:
        """``stepper`` is the engine, or else the optimizer, and its weights have changed."""

    def accumulated(self) -> None:
        """A step that left the weights as they are: more micro-batches come first."""

    def clipped(self, parameters: Sequence[Any], norm: Any) -> None:
        """Plain PyTorch has clipped the gradients of these to some norm, and this is what they had."""

    def resumed(self, engine: Any) -> None:
        """The engine has loaded a checkpoint."""

    def evaluates(self, model: Any) -> None:
        """A model is called in eval mode and without gradients, where a forward is awaited."""

    def occasion_begins(self, phase: str) -> None:
        """``phase`` is one of `harness.probe.border.wire.OCCASIONS`."""

    def occasion_ended(self, failed: bool) -> None:
        """What went on before goes on, or, where it ``failed``, the program sees the exception."""

    def saves(self, what: Any) -> None:
        """A function that saves was given this, in whichever thread."""


class CallListener(Listener, Protocol):
    """Of a program that trains nothing: each call of a model is a forward."""

    def forward_ended(self) -> None:
        """The call that began is over, or has failed."""


class StepWatch:
    """Installed while the program runs; see the module."""

    def __init__(self, listener: Listener, engines: Iterable[Any] | None = None) -> None:
        self._listener = listener
        self._engines = engines  #: classes, in the place of DeepSpeed's
        self.backwards = 0  #: calls of backward, but for those within another
        self._inside = 0  #: calls of an engine or of autograd that are under way
        self._thread = threading.get_ident()  #: that trains
        self._stepped_inside: Any = None  #: the first optimizer that has stepped in them
        self._patches = Patches()
        self._occasions = OccasionWatch(self._occasion, listener.saves)
        self._clipping = ClippingWatch(listener.clipped)
        self._waiting: Any = None  #: the hook that waits for a forward, which costs a call of each module

    def __enter__(self) -> StepWatch:
        with Patches() as patches:
            for engine in _engines() if self._engines is None else self._engines:
                _wrap(patches, engine, "__init__", self._construction_of_engine)
                _wrap(patches, engine, "backward", self._backward_of_engine)
                _wrap(patches, engine, "step", self._step_of_engine)
                _wrap(patches, engine, "load_checkpoint", self._loading_of_engine)
                if hasattr(engine, "_take_model_step"):  # a pipeline's ``train_batch`` takes its step here
                    _wrap(patches, engine, "_take_model_step", self._step_of_engine)
            _wrap(patches, torch.autograd, "backward", self._backward_of_autograd)  # which a tensor's own calls
            patches.callback(optimizers.register_optimizer_step_pre_hook(self._optimizer_begins).remove)
            patches.callback(optimizers.register_optimizer_step_post_hook(self._optimizer_ended).remove)
            patches.callback(self.ignore_forward)
            patches.enter_context(self._occasions)
            patches.enter_context(self._clipping)
            self._patches = patches.pop_all()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._patches.close()

    def look(self) -> None:
        """Watches what has been imported by now."""
        self._occasions.look()
        self._clipping.look()

    def await_forward(self) -> None:
        """The next call of a module that trains is reported."""
        if self._waiting is None:
            self._waiting = modules.register_module_forward_pre_hook(self._module_called)

    def ignore_forward(self) -> None:
        if self._waiting is not None:
            self._waiting.remove()
            self._waiting = None

    def _backward_begins(self, loss: Any, engine: Any) -> None:
        self.backwards += 1
        self._listener.backward_begins(loss, engine)

    # -- engines -----------------------------------------------------------------------------------------------------

    def _backward_of_engine(self, original: Any) -> Any:
        def backward(engine: Any, *args: Any, **kwargs: Any) -> Any:
            loss = args[0] if args else kwargs.get("loss")
            with self._call(lambda: self._backward_begins(loss, engine)):
                return original(engine, *args, **kwargs)

        return backward

    def _construction_of_engine(self, original: Any) -> Any:
        """An optimizer that DeepSpeed makes may step once, for its states to be there: no step of the program's."""

        def construct(engine: Any, *args: Any, **kwargs: Any) -> None:
            with self._call(self.look):
                original(engine, *args, **kwargs)

        return construct

    def _step_of_engine(self, original: Any) -> Any:
        def step(engine: Any, *args: Any, **kwargs: Any) -> Any:
            outermost = not self._inside
            before = engine.global_steps
            with self._call(lambda: self._listener.step_begins(engine)):
                out = original(engine, *args, **kwargs)
            if outermost:
                if engine.global_steps > before:
                    self._listener.step_ended(engine)
                else:
                    self._listener.accumulated()
            return out

        return step

    def _loading_of_engine(self, original: Any) -> Any:
        def load_checkpoint(engine: Any, *args: Any, **kwargs: Any) -> Any:
            out = original(engine, *args, **kwargs)
            self._listener.resumed(engine)
            return out

        return load_checkpoint

    # -- plain PyTorch -----------------------------------------------------------------------------------------------

    def _backward_of_autograd(self, original: Any) -> Any:
        def backward(*args: Any, **kwargs: Any) -> Any:
            loss = args[0] if args else kwargs.get("tensors")
            outermost = not self._inside
            if outermost:
                self._stepped_inside = None
            with self._call(lambda: self._backward_begins(loss, None)):
                out = original(*args, **kwargs)
            if outermost:  # a backward inside of it, as a reentrant checkpoint's, leaves this to it
                stepped, self._stepped_inside = self._stepped_inside, None
                if stepped is not None:
                    self._listener.step_begins(stepped)
                    self._listener.step_ended(stepped)
            return out

        return backward

    def _optimizer_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._inside:
            self._listener.step_begins(optimizer)

    def _optimizer_ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._inside:
            self._listener.step_ended(optimizer)
        elif self._stepped_inside is None:
            self._stepped_inside = optimizer

    def _module_called(self, module: Any, inputs: Any) -> None:
        if self._inside:
            return
        if not torch.is_grad_enabled():
            if not module.training:
                self._listener.evaluates(module)
            return
        if any(parameter.requires_grad for parameter in module.parameters()):
            self.look()
            self._listener.forward_begins(module)

    @contextlib.contextmanager
    def _occasion(self, phase: str) -> Iterator[None]:
        if self._inside or threading.get_ident() != self._thread:
            yield
            return
        failed = True
        self._listener.occasion_begins(phase)
        self._inside += 1
        try:
            yield
            failed = False
        finally:
            self._inside -= 1
            self._listener.occasion_ended(failed)

    @contextlib.contextmanager
    def _call(self, begins: Callable[[], None]) -> Iterator[None]:
        if not self._inside:
            self._thread = threading.get_ident()
            begins()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1


class CallWatch(StepWatch):
    """Reports each call of a model, whether it trains or not, and its end. Calls within it are a part of it."""

    def __init__(self, listener: CallListener, engines: Iterable[Any] | None = None) -> None:
        super().__init__(listener, engines)
        self._call_listener = listener

    def _module_called(self, module: Any, inputs: Any) -> None:
        if self._inside or next(module.parameters(), None) is None:
            return
        self.look()
        self.ignore_forward()

        def ended(*call: Any) -> None:
            hook.remove()
            self._call_listener.forward_ended()
            self.await_forward()

        hook = module.register_forward_hook(ended, always_call=True)
        self._call_listener.forward_begins(module)


def _wrap(patches: Patches, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    patches.set(owner, name, functools.wraps(original)(make(original)))


def _engines() -> Iterator[Any]:
    """Classes of engines whose backward and step a program calls."""
    engine = sys.modules.get("deepspeed.runtime.engine")
    if engine is not None:
        yield engine.DeepSpeedEngine
