"""Loads what a plain optimizer has saved of itself into it once more, and compares the step that it takes then with the one
that it would have taken: whoever resumes takes that step.

This needs no baseline. An engine, and an optimizer whose weights are divided over ranks, needs all ranks to load, so nothing
is known of those; nor is anything of an optimizer that has stepped, or whose rate has changed, since it was saved. To be
done when the program has ended: the optimizer's state is another one afterwards, its weights are as they were.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

#: Weights of the largest optimizer that takes a step more.
_LARGEST = 100_000_000

#: How far the two steps may be apart, as a share of the first one's size: a file may hold another dtype.
_TOLERANCE = 0.05

_STATE, _GROUPS = "state", "param_groups"


class _SavedOptimizer(NamedTuple):
    optimizer: torch.optim.Optimizer  #: kept alive: a program drops it at the end of the function that trains
    keys: tuple[str, ...]  #: under which the file has its state dict


class SavedOptimizers:
    """The optimizers that one rank has saved, by file, each as it was saved last."""

    def __init__(self) -> None:
        self._by_file: dict[str, _SavedOptimizer] = {}

    def keep_saved(self, saved: object, file: str, optimizers: Iterable[object]) -> None:
        """Keep which of the ``optimizers`` is in what is saved into a file, by itself or in a mapping, if one is."""
        plain = [one for one in optimizers if isinstance(one, torch.optim.Optimizer)]
        for keys, state_dict in _state_dicts(saved):
            held = {id(one) for one in _tensors(state_dict[_STATE])}
            for optimizer in plain:
                if held & {id(one) for one in _tensors(optimizer.state)}:
                    self._by_file.pop(file, None)
                    self._by_file[file] = _SavedOptimizer(optimizer, keys)

    def stepping_otherwise(self) -> Iterator[str]:
        """Yield what is wrong with the last optimizer that was saved into a file that is still there, once it is loaded."""
        there = [(file, one) for file, one in self._by_file.items() if os.path.isfile(file)]
        for file, one in there[-1:]:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                said = _difference_after(one.optimizer, _state_in(file, one.keys))
            if said:
                yield said


def _difference_after(optimizer: torch.optim.Optimizer, file: Mapping[str, Any] | None) -> str:
    """Return in what the next step differs once the optimizer has loaded a file; empty if it does not, or is not known."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    if file is None or not _are_plain(weights) or not _is_as_saved(optimizer.state_dict(), file):
        return ""
    kept = [(weight, weight.detach().clone(), weight.grad) for weight in weights]
    try:
        before = _step_of(optimizer, kept)
        if before is None:
            return ""
        try:
            optimizer.load_state_dict(dict(file))
        except Exception as error:  # whatever a release raises about what it has written itself
            return f"the optimizer refuses its own state: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        after = _step_of(optimizer, kept)
    finally:
        _put_back(kept)
    if after is None:
        return "the optimizer fails in its next step once it has loaded its own state"
    size = sum(float(one.abs().sum()) for one in before)
    apart = sum(float((one - other).abs().sum()) for one, other in zip(before, after, strict=True))
    if not apart > _TOLERANCE * size:
        return ""
    return f"the optimizer's next step is {apart / size:.0%} apart once it has loaded its own state"


def _step_of(
    optimizer: torch.optim.Optimizer, kept: Sequence[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]
) -> list[torch.Tensor] | None:
    """Return by how much a step moves each weight from where it was kept, by a gradient that is made from the weight; None
    if the step fails, as of an optimizer that needs a closure."""
    with torch.no_grad():
        for weight, value, _ in kept:
            weight.copy_(value)
            weight.grad = value * 0.1 + 0.001
        try:
            optimizer.step()
        except Exception:  # one that needs a closure, or gradients of another kind
            return None
        return [(weight - value).double() for weight, value, _ in kept]


def _put_back(kept: Sequence[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]) -> None:
    with torch.no_grad():
        for weight, value, gradient in kept:
            weight.copy_(value)
            weight.grad = gradient


def _are_plain(weights: Sequence[torch.Tensor]) -> bool:
    whole = all(
        type(one) in (torch.Tensor, torch.nn.Parameter)
        and not one.is_meta
        and one.is_floating_point()
        and not hasattr(one, "_fsdp_flattened")
        and not hasattr(one, "ds_id")
        for one in weights
    )
    return whole and 0 < sum(one.numel() for one in weights) <= _LARGEST


def _is_as_saved(own: Mapping[str, Any], file: Mapping[str, Any]) -> bool:
    """Return True if a file has the settings and the values that an optimizer has."""
    groups = [[{**one, "params": len(one["params"])} for one in each[_GROUPS]] for each in (own, file)]
    mine, written = ([*_tensors(each[_STATE])] for each in (own, file))
    alike = len(mine) == len(written) and all(_is_same(*pair) for pair in zip(mine, written, strict=True))
    return alike and bool(mine) and repr(groups[0]) == repr(groups[1])


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one.cpu(), other.cpu())


def _state_in(file: str, keys: Sequence[str]) -> Mapping[str, Any] | None:
    with contextlib.suppress(Exception):  # a format of its own
        found: Any = torch.load(file, map_location="cpu", weights_only=False)
        for key in keys:
            found = found[key]
        return found if isinstance(found, Mapping) else None
    return None


def _state_dicts(saved: object) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the state dicts of optimizers in what is saved, each with the keys that lead to it."""
    if not isinstance(saved, Mapping):
        return
    if _STATE in saved and _GROUPS in saved:
        yield (), saved
    for key, one in saved.items():
        if isinstance(key, str) and isinstance(one, Mapping) and _STATE in one and _GROUPS in one:
            yield (key,), one


def _tensors(state: object) -> Iterator[torch.Tensor]:
    """Yield the tensors that belong to weights, in the order of the weights."""
    for own in state.values() if isinstance(state, Mapping) else ():
        for one in own.values() if isinstance(own, Mapping) else ():
            if isinstance(one, torch.Tensor):
                yield one
