"""Records what a program feeds to its models: rows, tokens, labels and padding of each micro-batch, and their order.

Ids are kept as digests, and the last id of a row as a number, so that a missing end of sequence is seen. Of all other
tensors, such as the floats of a module that is no language model's, two means of each row are kept: a release that rounds
otherwise feeds the same. Unmetered.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import itertools
import math
import pickle
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.probe.border.wire import FedBatch, FedRow
from dsregress.programs.watch.module_calls import when_left

#: Micro-batches, and rows and drawn indices of each, that are kept.
_MOST_BATCHES, _MOST_ROWS, _MOST_INDICES = 64, 8, 256

#: The label of a token that has none, by the cross entropy of PyTorch.
_NO_LABEL = -100

#: Arguments that are kept as digests.
_DIGESTED = ("input_ids", "attention_mask", "labels")

#: A mean that is no number, or infinite.
_NO_MEAN = -1.0


class FedBatches:
    """Everything that one rank's models were fed, and its data loaders drew, so far."""

    def __init__(self, *, contents: bool) -> None:
        self._contents = contents  #: whether tensors have values
        self._batches: list[bytes] = []  #: each in one piece: what piles up from step to step is counted
        self.shifting: list[str] = []  #: models that shift labels which are shifted already
        self._drawn: list[int] = []  #: since the last one

    @property
    def batches(self) -> list[FedBatch]:
        """Return the micro-batches in order."""
        return [pickle.loads(batch) for batch in self._batches]

    def draw(self, indices: object) -> None:
        """Keep the indices that a data loader drew; a stream has none."""
        if isinstance(indices, (list, tuple)):
            room = _MOST_INDICES - len(self._drawn)
            self._drawn += [index for index in indices[:room] if isinstance(index, int)]

    def expect(self, model: torch.nn.Module, step: int) -> None:
        """Keep what the model is being called with, once the call returns: only then are named arguments at hand."""
        if len(self._batches) >= _MOST_BATCHES or isinstance(model, torch.jit.ScriptModule):
            return

        def called(args: Sequence[object], kwargs: Mapping[str, object], out: object) -> None:
            with _disable_current_modes():
                if (batch := _batch(step, args, kwargs, contents=self._contents)) is not None:
                    drawn, self._drawn = self._drawn, []
                    values = _values(dict(_named_tensors(args, kwargs)), known=_DIGESTED) if self._contents else {}
                    self._batches.append(pickle.dumps(dataclasses.replace(batch, drawn=drawn, values=values)))
                if self._contents and _are_shifted(dict(_named_tensors(args, kwargs))):
                    self.shifting += _shifting_models(model)

        when_left(model, returned=called)


#: Supervised tokens of a batch whose labels say for certain whether they are shifted.
_CERTAIN = 8


def _are_shifted(named: Mapping[str, torch.Tensor]) -> bool:
    """Return True if each label is the next token."""
    ids, labels = named.get("input_ids"), named.get("labels")
    if ids is None or labels is None or "shift_labels" in named or ids.dim() != 2 or ids.shape != labels.shape:
        return False
    is_supervised = labels[:, :-1] != _NO_LABEL
    own, following, goals = (one[is_supervised] for one in (ids[:, :-1], ids[:, 1:], labels[:, :-1]))
    return len(goals) >= _CERTAIN and torch.equal(goals, following) and int((goals != own).sum()) >= _CERTAIN


def _shifting_models(model: torch.nn.Module) -> list[str]:
    """Return the class of transformers' outermost model within a model, if it shifts labels itself; empty otherwise."""
    kinds = ((part, kind) for part in model.modules() for kind in type(part).__mro__)
    of_transformers = ((part, kind) for part, kind in kinds if kind.__module__.startswith("transformers.models."))
    part, kind = next(of_transformers, (model, type(model)))
    forward: Any = getattr(kind, "forward", None)
    is_own = getattr(type(part), "forward", None) is forward and "forward" not in vars(part)
    if not kind.__name__.endswith("ForCausalLM") or not is_own:
        return []
    source = inspect.getsource(forward)
    by_loss = "self.loss_function(" in source and getattr(part, "loss_type", None) == "ForCausalLM"
    return [kind.__name__] if by_loss or "shift_labels" in source else []


def _batch(step: int, args: Sequence[object], kwargs: Mapping[str, object], *, contents: bool) -> FedBatch | None:
    """Return a micro-batch; None if no argument is a tensor of rows."""
    named = dict(_named_tensors(args, kwargs))
    ids = named.get("input_ids")
    if ids is None:
        ids = next((one for one in named.values() if not one.is_floating_point() and one.dim() > 1), None)
    if ids is None or ids.dim() < 2:
        first = next((one for one in named.values() if one.dim()), None)
        return None if first is None else FedBatch(step=step, rows=first.shape[0], length=0)
    rows, length = ids.shape[:2]
    shown = range(min(rows, _MOST_ROWS))
    if not contents or ids.dim() > 2:  # a token may be more than a number
        return FedBatch(step=step, rows=rows, length=length, first_rows=[FedRow(tokens=length) for _ in shown])
    values, mask, labels = (_first_rows(one, ids) for one in (ids, named.get("attention_mask"), named.get("labels")))
    first_rows = [_fed_row(values[at], mask[at] if mask else None, labels[at] if labels else None) for at in shown]
    return FedBatch(step=step, rows=rows, length=length, is_masked=bool(mask), first_rows=first_rows)


def _named_tensors(args: Sequence[object], kwargs: Mapping[str, object]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of a call: named ones by their names, also those of a mapping, others by their positions."""
    for position, value in enumerate(args):
        if isinstance(value, Mapping):
            yield from _named_tensors((), value)
        elif isinstance(value, torch.Tensor):
            yield str(position), value
    for name, value in kwargs.items():
        if isinstance(value, torch.Tensor):
            yield name, value


def _values(named: Mapping[str, torch.Tensor], known: Collection[str]) -> dict[str, list[list[float]]]:
    """Return two means of each of the first rows of tensors, by argument. Those are left out whose ids are ``known``, those
    that a module has computed, which follow from its training, and those without rows: what a trainer divides a loss by is
    no data."""
    given = {name: one.detach() for name, one in named.items() if not (one.requires_grad or one.is_complex())}
    return {
        name: [_means(row) for row in one[:_MOST_ROWS]]
        for name, one in given.items()
        if one.layout is torch.strided and one.dim() and one.numel() and not (name in known and one.dim() == 2)
    }


def _means(row: torch.Tensor) -> list[float]:
    """Return the mean of the absolute values, and one of the values in which the last counts twice as much as the first."""
    flat = row.to(torch.float64).flatten()
    weighted = flat * torch.linspace(1.0, 2.0, flat.numel(), dtype=torch.float64)
    means = float(flat.abs().mean()), float(weighted.mean())
    return [one if math.isfinite(one) else _NO_MEAN for one in means]


def _first_rows(one: torch.Tensor | None, ids: torch.Tensor) -> list[list[int]]:
    """Return the numbers of the first rows; none where the tensor has not a number for each id."""
    if one is None or one.shape != ids.shape:
        return []
    return [[int(value) for value in row] for row in one.detach()[:_MOST_ROWS].tolist()]


def _fed_row(ids: Sequence[int], mask: Sequence[int] | None, labels: Sequence[int] | None) -> FedRow:
    kept = [True] * len(ids) if mask is None else list(map(bool, mask))
    own = list(itertools.compress(ids, kept))
    goals = None if labels is None else list(itertools.compress(labels, kept))
    return FedRow(
        tokens=len(own),
        supervised=None if goals is None else sum(label != _NO_LABEL for label in goals),
        ids=_digest(own),
        ids_but_last=_digest(own[:-1]),
        last=own[-1] if own else None,
        labels="" if goals is None else _digest(goals),
    )


def _digest(values: Sequence[int]) -> str:
    return hashlib.blake2b(array("q", values).tobytes(), digest_size=8).hexdigest()
