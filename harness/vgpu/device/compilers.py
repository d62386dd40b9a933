"""``torch.compile`` on a virtual GPU: compiled code runs eagerly, and the figures say so.

The fused kernels of a compiled model, and the tensors that they keep for backward, are unknown until it has run on a GPU;
and compiled code calls no operators that a meter could count. A program still gets torch's own ``OptimizedModule`` around a
model.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo.eval_frame as eval_frame

from vgpu.replacing import MissingTarget, Patches

#: Note shown when a program called compiled code.
NOT_APPLIED = "torch.compile was not applied: memory and work are those of eager code"

#: torch's own switches, of older and of newer releases.
_SWITCHES = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")

#: The functions by which a release sets the callback that compiles a frame.
SET_CALLBACK = ("set_eval_frame", "_maybe_set_eval_frame")

_Call = Callable[..., Any]


@contextlib.contextmanager
def eager(note: Callable[[str], None]) -> Iterator[None]:
    """Compile nothing within the block. ``note`` gets `NOT_APPLIED` when the program calls something that it had
    compiled."""

    def noting(call: _Call) -> _Call:
        @functools.wraps(call)
        def run(*args: object, **kwargs: object) -> Any:
            note(NOT_APPLIED)
            return call(*args, **kwargs)

        return run

    class Eager(eval_frame.DisableContext):
        """The decorator by which an OptimizedModule calls its model; it adds the note."""

        def __call__(self, call: _Call) -> _Call:
            return noting(call)

    def compile(model: Any = None, **options: object) -> Any:
        """Stand in for ``torch.compile``: return an OptimizedModule that runs eagerly, or the noted function."""
        if model is None:
            return functools.partial(compile, **options)
        if options.get("disable") or any(os.environ.get(name) == "1" for name in _SWITCHES):
            return model
        return eval_frame.OptimizedModule(model, Eager()) if isinstance(model, torch.nn.Module) else noting(model)

    with Patches("compiled code runs eagerly") as patches:
        patches.replace(torch, "compile", compile)
        # The module's own ``__call__`` warns of global hooks, which here watch for phases.
        patches.replace(eval_frame.OptimizedModule, "__call__", torch.nn.Module.__call__)
        for name in ("_jit_set_profiling_executor", "_jit_set_profiling_mode"):
            patches.replace(torch._C, name, _kept_on)
        _run_what_was_compiled_before(patches, note)
        yield


def _kept_on(is_on: bool) -> bool:
    """Stand in for TorchScript's switch from its present executor to the former one, which fuses on CPUs and GPUs alone, and
    fails on any other device. Return the state before, as the switch does."""
    return True


def _run_what_was_compiled_before(patches: Patches, note: Callable[[str], None]) -> None:
    """Run functions eagerly that a library compiled by decorator at import: a compiler starts where a frame callback is
    set."""

    def eagerly(set_callback: _Call) -> _Call:
        def set_eval_frame(callback: object) -> object:
            if not callable(callback):
                return set_callback(callback)
            note(NOT_APPLIED)
            return set_callback(None)

        return set_eval_frame

    either = "a release of torch calls one of two functions, or both"
    named = [name for name in SET_CALLBACK if patches.has(eval_frame, name, absent=either)]
    if not named:
        raise MissingTarget(eval_frame, SET_CALLBACK[0])
    for name in named:
        patches.replace(eval_frame, name, eagerly(getattr(eval_frame, name)))
    # Newer releases count the frames that were compiled, and fail where fullgraph=True finds none.
    patches.replace(eval_frame, "set_fullgraph_compiled_frame_count", lambda count: 0, since="torch 2.13")
