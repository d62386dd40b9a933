"""The tensors that a program saves: their names, dtypes, shapes and mean absolute values, whatever files they are in.

Releases may name files differently, shard them differently and write another format; none of that changes what is loaded
again. The last tensor saved under a name counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.probe.border.wire import SavedTensors
from dsregress.programs.watch.tensor_names import without_numbers

#: Dtypes for which the mean of the values is taken.
_KNOWN = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class SavedState:
    """Everything that one rank has saved by names so far."""

    def __init__(self, *, contents: bool) -> None:
        self._contents = contents  #: whether tensors have values
        self._tensors: dict[str, tuple[str, tuple[int, ...], float | None]] = {}

    def add(self, saved: object) -> None:
        """Add the argument of a function that saves. Ignore what holds no tensors by name."""
        with _disable_current_modes():
            for name, tensor in _saved_tensors(saved):
                mean = _mean(tensor) if self._contents else None
                self._tensors[name] = (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), mean)

    def listed(self) -> list[SavedTensors]:
        """Return the saved tensors; those whose names differ only in numbers are one entry."""
        together: dict[tuple[str, str, tuple[int, ...]], list[float | None]] = {}
        for name, (dtype, shape, mean) in self._tensors.items():
            together.setdefault((without_numbers(name), dtype, shape), []).append(mean)
        return [
            SavedTensors(name=name, dtype=dtype, shape=list(shape), count=len(means), mean=_together(means))
            for (name, dtype, shape), means in together.items()
        ]


def _together(means: list[float | None]) -> float | None:
    known = [mean for mean in means if mean is not None]
    return sum(known) / len(known) if len(known) == len(means) else None


def _saved_tensors(saved: object) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a state dict's tensors, and those of each state dict in a mapping, by name. State dicts without weights
    (random states, a scheduler's) are left out."""
    if not isinstance(saved, Mapping):
        return
    yield from _of_state_dict(saved)
    for outer, inner in saved.items():
        if isinstance(outer, str) and isinstance(inner, Mapping):
            for name, tensor in _of_state_dict(inner):
                yield f"{outer}.{name}", tensor


def _of_state_dict(state: Mapping[object, object]) -> list[tuple[str, torch.Tensor]]:
    tensors = [(name, one) for name, one in state.items() if isinstance(name, str) and isinstance(one, torch.Tensor)]
    return tensors if any(one.dtype.is_floating_point for _, one in tensors) else []


def _mean(tensor: torch.Tensor) -> float | None:
    """Return the mean of the absolute values; None if it is unknown or not finite."""
    whole = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    if not whole or tensor.dtype not in _KNOWN or tensor.device.type == "meta" or tensor.numel() == 0:
        return None
    norm = torch.linalg.vector_norm(tensor.detach(), 1, dtype=torch.float64)
    mean = float(norm) / tensor.numel()
    return mean if mean < float("inf") else None
