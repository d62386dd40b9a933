"""Reports where a program is in its training, without modifying it, from calls of an engine or of plain PyTorch.

Only the outermost call is reported: an engine's ``backward`` calls the loss's, and an engine's ``step`` the optimizer's.

- With a DeepSpeed engine: ``engine.backward`` or ``loss.backward()``, and ``engine.step``. A pipeline's ``train_batch`` is
  none of these: its micro-batches' backwards are autograd's, and its step begins where the optimizer's does.
- Else (DDP, FSDP, accelerate's, plain): ``loss.backward()`` and the ``step`` of an optimizer. Optimizers that step in hooks
  of the backward, one per parameter, belong to it: their step is reported at its end.
- A forward begins with the first call of a module that trains. Those in the closure of ``step(closure)`` are as any other.

So a step of accelerate's or of a Trainer is seen where it reaches these.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from vgpu.replacing import Patches


class TrainingListener(Protocol):
    """Receives the events of one rank, in order."""

    def forward_begins(self, model: torch.nn.Module) -> None:
        """Called when a model, or the engine around it, is called for the first time since the last backward or since
        the program began."""

    def backward_begins(self, loss: object, engine: object) -> None:
        """Called before a backward pass. ``engine`` is None for ``loss.backward()``."""

    def backward_ended(self) -> None:
        """Called after a backward pass."""

    def step_begins(self, stepper: object) -> None: ...

    def step_ended(self, stepper: object) -> None:
        """Called after a step that changed weights. ``stepper`` is the engine, or else the optimizer."""

    def accumulated(self) -> None:
        """Called after a step that left the weights unchanged: more micro-batches come first."""

    def evaluates(self, model: torch.nn.Module) -> None:
        """Called when a model is called in eval mode and without gradients while a forward is awaited."""


class TrainingWatch:
    """Reports events to a listener within the block, while the program runs; see the module."""

    def __init__(self, listener: TrainingListener, engines: Iterable[object] | None = None) -> None:
        self._listener = listener
        self._engines = engines  #: classes, instead of DeepSpeed's
        self.backwards = 0  #: calls of backward, except for those within another
        self._inside = 0  #: calls of an engine or of autograd in progress
        self._thread = threading.get_ident()  #: that trains
        self._stepped_inside: Any = None  #: the first optimizer that has stepped in them
        self._closure: _WatchedClosure | None = None  #: of the step in progress
        self._patches = Patches("phases of training")
        self._waiting: Any = None  #: the hook that waits for a forward; it costs a call per module

    def __enter__(self) -> TrainingWatch:
        with Patches("phases of training") as patches:
            self._watch(patches)
            self._patches = patches.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._patches.close()

    def _watch(self, patches: Patches) -> None:
        for engine in self._engine_classes():
            wrap(patches, engine, "__init__", self._construction_of_engine)
            wrap(patches, engine, "backward", self._backward_of_engine)
            wrap(patches, engine, "step", self._step_of_engine)
            if patches.has(engine, "_take_model_step", absent="only a pipeline's ``train_batch`` takes its step there"):
                wrap(patches, engine, "_take_model_step", self._step_of_engine)
        wrap(patches, torch.autograd, "backward", self._backward_of_autograd)  # which a tensor's own calls
        patches.callback(optimizers.register_optimizer_step_pre_hook(self._optimizer_begins).remove)
        patches.callback(optimizers.register_optimizer_step_post_hook(self._optimizer_ended).remove)
        patches.callback(self.ignore_forward)

    def _engine_classes(self) -> Iterable[object]:
        return engine_classes() if self._engines is None else self._engines

    def look(self) -> None:
        """Watch what has been imported so far."""

    def await_forward(self) -> None:
        """Report the next call of a module that trains."""
        if self._waiting is None:
            self._waiting = modules.register_module_forward_pre_hook(self._module_called)

    def ignore_forward(self) -> None:
        """Report no call of a module until `await_forward`."""
        if self._waiting is not None:
            self._waiting.remove()
            self._waiting = None

    def _backward_begins(self, loss: object, engine: object) -> None:
        self.backwards += 1
        self._listener.backward_begins(loss, engine)

    # -- engines -----------------------------------------------------------------------------------------------------

    def _backward_of_engine(self, original: Any) -> object:
        def backward(engine: Any, *args: object, **kwargs: object) -> Any:
            loss = args[0] if args else kwargs.get("loss")
            outermost = not self._inside
            with self._call(lambda: self._backward_begins(loss, engine)):
                out = original(engine, *args, **kwargs)
            if outermost:
                self._listener.backward_ended()
            return out

        return backward

    def _construction_of_engine(self, original: Any) -> object:
        """Return a constructor within which steps are not reported: an optimizer that DeepSpeed makes may step once to
        create its states."""

        def construct(engine: object, *args: object, **kwargs: object) -> None:
            with self._call(self.look):
                original(engine, *args, **kwargs)

        return construct

    def _step_of_engine(self, original: Any) -> object:
        def step(engine: Any, *args: object, **kwargs: object) -> Any:
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

    # -- plain PyTorch -----------------------------------------------------------------------------------------------

    def _backward_of_autograd(self, original: Any) -> object:
        def backward(*args: Any, **kwargs: object) -> Any:
            loss = args[0] if args else kwargs.get("tensors")
            outermost = not self._inside
            if outermost:
                self._stepped_inside = None
            with self._call(lambda: self._backward_begins(loss, None)):
                out = original(*args, **kwargs)
            if outermost:  # a backward inside of it, as a reentrant checkpoint's, leaves this to it
                self._listener.backward_ended()
                stepped, self._stepped_inside = self._stepped_inside, None
                if stepped is not None:
                    self._listener.step_begins(stepped)
                    self._listener.step_ended(stepped)
            return out

        return backward

    def _optimizer_begins(self, optimizer: object, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Report that a step begins or, of ``step(closure)``, return arguments whose closure reports it at its end."""
        if self._inside:
            return None
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if not callable(closure):
            self._listener.step_begins(optimizer)
            return None
        if isinstance(closure, _WatchedClosure):  # of an optimizer around this one
            return None
        watched = self._closure = _WatchedClosure(closure, optimizer, self._listener)
        if "closure" in kwargs:
            return args, {**kwargs, "closure": watched}
        return (args[0], watched, *args[2:]), kwargs

    def _optimizer_ended(self, optimizer: object, args: object, kwargs: object) -> None:
        if not self._inside:
            if self._closure is not None and not self._closure.is_called:
                self._listener.step_begins(optimizer)
            self._closure = None
            self._listener.step_ended(optimizer)
        elif self._stepped_inside is None:
            self._stepped_inside = optimizer

    def _module_called(self, module: torch.nn.Module, inputs: object) -> None:
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
    def paused(self) -> Iterator[None]:
        """Report nothing within the block."""
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

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


class _WatchedClosure:
    """The closure of ``optimizer.step(closure)``: its forward and backward are phases of their own, and the step begins when
    it has returned. Each call but the first, as LBFGS makes them, interrupts the step."""

    def __init__(self, closure: Callable[..., Any], optimizer: object, listener: TrainingListener) -> None:
        self._closure, self._optimizer, self._listener = closure, optimizer, listener
        self.is_called = False

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if self.is_called:
            self._listener.accumulated()
        out = self._closure(*args, **kwargs)
        self.is_called = True
        self._listener.step_begins(self._optimizer)
        return out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._closure, name)


def wrap(patches: Patches, owner: object, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    patches.replace(owner, name, functools.wraps(original)(make(original)))


def engine_classes() -> Iterator[object]:
    """Yield the classes of engines whose backward and step a program calls."""
    engine = sys.modules.get("deepspeed.runtime.engine")
    if engine is not None:
        yield engine.DeepSpeedEngine
