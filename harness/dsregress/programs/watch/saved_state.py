"""The tensors that a program saves: their names, dtypes, shapes and mean absolute values, whatever files they are in.

Releases may name files differently, shard them differently and write another format; none of that changes what is loaded
again. The last tensor saved under a name counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.probe.border.wire import SavedTensors
from dsregress.programs.watch.tensor_names import without_numbers

#: Dtypes for which the mean of the values is taken.
_KNOWN = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


#: How transformers, peft and diffusers name files of weights.
_OF_WEIGHTS = re.compile(r"(adapter_model|(diffusion_)?pytorch_model|model)(-\d+-of-\d+)?\.(safetensors|bin)")


class SavedState:
    """Everything that one rank has saved by names so far."""

    def __init__(self, *, contents: bool) -> None:
        self._contents = contents  #: whether tensors have values
        self._files: dict[str, bool] = {}  #: of weights -> whether it holds a tensor, when it was last saved
        self._tensors: dict[str, tuple[str, tuple[int, ...], float | None]] = {}

    def add(self, saved: object, file: object = None) -> None:
        """Add the argument of a function that saves, and the file. Ignore what holds no tensors by name."""
        if isinstance(saved, Mapping) and isinstance(file, (str, os.PathLike)) and _holds_weights(os.fspath(file)):
            self._files[os.path.abspath(os.fsdecode(file))] = _has_a_tensor(saved)
        with _disable_current_modes():
            for name, tensor in _saved_tensors(saved):
                mean = _mean(tensor) if self._contents else None
                self._tensors[name] = (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), mean)

    def empty_files(self) -> list[str]:
        """Return the names of the files of weights that hold no tensor and are still there: libraries remove a file that
        they only wrote in place of another."""
        return sorted(
            {os.path.basename(file) for file, full in self._files.items() if not full and os.path.exists(file)}
        )

    def listed(self) -> list[SavedTensors]:
        """Return the saved tensors; those whose names differ only in numbers are one entry."""
        together: dict[tuple[str, str, tuple[int, ...]], list[float | None]] = {}
        for name, (dtype, shape, mean) in self._tensors.items():
            together.setdefault((without_numbers(name), dtype, shape), []).append(mean)
        return [
            SavedTensors(name=name, dtype=dtype, shape=list(shape), count=len(means), mean=_together(means))
            for (name, dtype, shape), means in together.items()
        ]


def _has_a_tensor(saved: Mapping[Any, object]) -> bool:
    return any(
        isinstance(one, torch.Tensor) or (isinstance(one, Mapping) and _has_a_tensor(one)) for one in saved.values()
    )


def _holds_weights(file: str | bytes) -> bool:
    """Return True for a file that is there to be loaded as a model or an adapter."""
    return _OF_WEIGHTS.fullmatch(os.path.basename(os.fsdecode(file))) is not None


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


def _of_state_dict(state: Mapping[Any, object]) -> list[tuple[str, torch.Tensor]]:
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
