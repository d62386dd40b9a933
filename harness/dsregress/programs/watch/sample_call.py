"""One call of a model that trains, with which it can be called again: to compare what comes out before and after."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.programs.watch.communication import CommunicationWatch

#: Numbers that the arguments of a call may hold.
_MOST_NUMBERS = 200_000

#: Values of arguments besides tensors: with any other, a call may not be repeated.
_PLAIN = (torch.Tensor, bool, int, float, str, type(None))


class ModelOutputs(NamedTuple):
    """All floats that come out of a call, and the loss among them."""

    values: list[torch.Tensor]
    loss: float | None


class SampleCall:
    """The first call of a model that is small enough to be kept."""

    def __init__(self) -> None:
        self._arguments: tuple[tuple[object, ...], dict[str, object]] | None = None

    def expect(self, model: torch.nn.Module) -> None:
        """Keep the arguments of the call that begins, unless there are some. With other ranks it is that of the model
        within a wrapper, and a call that communicates is left out: one rank alone cannot repeat it."""
        has_others = torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1
        inner = getattr(model, "module", None)
        called = inner if has_others and isinstance(inner, torch.nn.Module) else model
        if self._arguments is not None or isinstance(called, torch.jit.ScriptModule):
            return
        watched, communication = contextlib.ExitStack(), CommunicationWatch()

        def call_begins(*_: object) -> None:
            watched.enter_context(communication)

        def keep_arguments(module: object, args: object, kwargs: object, out: object) -> None:
            watched.close()
            for hook in hooks:
                hook.remove()
            with _disable_current_modes():
                if not communication.found:
                    self._keep_small(args, kwargs)

        hooks = [called.register_forward_hook(keep_arguments, with_kwargs=True, always_call=has_others)]
        if called is not model:
            hooks.append(called.register_forward_pre_hook(call_begins))
        elif has_others:  # its call has begun
            call_begins()

    def outputs(self, model: torch.nn.Module) -> ModelOutputs | None:
        """Call a model as it evaluates; None if it cannot be called so, or if a second call comes out otherwise."""
        if self._arguments is None:
            return None
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]), _forward_of_its_class(model):
                found = [self._repeated(model) for _ in range(2)]
        except Exception:  # another module than the one that was called, or one of a wrapper: nothing is known
            return None
        finally:
            model.train(was_training)
        return found[0] if distance(*found) == 0.0 else None

    def _keep_small(self, *arguments: object) -> None:
        leaves = pytree.tree_leaves(arguments)
        if all(type(leaf) in _PLAIN for leaf in leaves) and _numbers_in(leaves) <= _MOST_NUMBERS:
            self._arguments = pytree.tree_map_only(torch.Tensor, lambda one: one.detach().clone(), arguments)

    def _repeated(self, model: torch.nn.Module) -> ModelOutputs:
        assert self._arguments is not None
        torch.manual_seed(0)
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, self._arguments)
        out = model(*args, **kwargs)
        loss = out.get("loss") if isinstance(out, Mapping) else None
        return ModelOutputs([one.float() for one in _floats(out)], None if loss is None else float(loss))


@contextlib.contextmanager
def _forward_of_its_class(model: torch.nn.Module) -> Iterator[None]:
    """Call a model without the ``forward`` that a trainer has put on it alone, as accelerate does for mixed precision: the
    same model, once it is loaded, lacks that, and rounds otherwise."""
    put = vars(model).pop("forward", None)
    try:
        yield
    finally:
        if put is not None:
            vars(model)["forward"] = put


def distance(own: ModelOutputs, other: ModelOutputs) -> float | None:
    """Return the largest mean distance of two outputs, as a share of the first one's mean; None if their shapes differ."""
    if [one.shape for one in own.values] != [one.shape for one in other.values] or not own.values:
        return None
    apart = [
        float((mine - theirs).abs().mean()) / max(float(mine.abs().mean()), 1e-12)
        for mine, theirs in zip(own.values, other.values, strict=True)
    ]
    return max(apart)


def _numbers_in(leaves: list[object]) -> int:
    return sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))


def _floats(out: object) -> Iterator[torch.Tensor]:
    """Yield the tensors of floats of an output, in order; those of other objects within it are left out."""
    if isinstance(out, torch.Tensor):
        if out.is_floating_point() and out.numel():
            yield out
    elif isinstance(out, (Mapping, tuple, list)):
        for one in out.values() if isinstance(out, Mapping) else out:
            yield from _floats(one)
