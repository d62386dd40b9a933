"""The tensors that a program saves: their names, dtypes, shapes and mean absolute values, whatever files they are in.

Releases may name files differently, shard them differently and write another format; none of that changes what is loaded
again. The last tensor saved under a name counts.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.probe.border.wire import SavedTensors
from dsregress.programs.watch.communication import CommunicationWatch, RefusedCommunication
from dsregress.programs.watch.loading_back import loaded_otherwise
from dsregress.programs.watch.optimizer_back import SavedOptimizers
from dsregress.programs.watch.sample_call import SampleCall
from dsregress.programs.watch.saved_models import HeldTensor, SavedModels
from dsregress.programs.watch.tensor_names import without_numbers

#: Dtypes for which the mean of the values is taken.
_KNOWN = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


#: An optimizer that is saved alone, and the keys of its state dict, of which the first has what belongs to each weight.
_OPTIMIZER, _STATE, _GROUPS = "optimizer", "state", "param_groups"

#: How many folders are loaded again: the last ones.
_FOLDERS_LOADED = 3

#: How transformers, peft and diffusers name files of weights.
_OF_WEIGHTS = re.compile(r"(adapter_model|(diffusion_)?pytorch_model|model)(-\d+-of-\d+)?\.(safetensors|bin)")


class SavedState:
    """Everything that one rank has saved by names so far."""

    def __init__(self, *, contents: bool) -> None:
        self._contents = contents  #: whether tensors have values
        self._files: dict[str, dict[str, HeldTensor]] = {}  #: of weights -> its tensors, when it was last saved
        self._models = SavedModels()
        self._optimizers = SavedOptimizers()
        self._tensors: dict[str, tuple[str, tuple[int, ...], float | None]] = {}

    def add(self, saved: object, file: object = None, optimizers: Iterable[object] = ()) -> None:
        """Add the argument of a function that saves, and the file. Ignore what holds no tensors by name. A model that has
        saved itself comes after its files, with its folder. ``optimizers`` are those that have stepped."""
        place = os.path.abspath(os.fsdecode(file)) if isinstance(file, (str, os.PathLike)) else ""
        with _disable_current_modes():
            if place and self._contents:
                self._optimizers.keep_saved(saved, place, optimizers)
            if isinstance(saved, torch.nn.Module) and place:
                self._models.add(saved, place, self._mean_of)
            if isinstance(saved, Mapping) and _OF_WEIGHTS.fullmatch(os.path.basename(place)):
                held = {name: HeldTensor(tuple(one.shape), self._mean_of(one)) for name, one in _all_tensors(saved)}
                if place in self._files:
                    self._models.overwritten(place)
                self._files[place] = held
            for name, tensor in _saved_tensors(saved):
                self._add(name, tensor, self._mean_of(tensor))
            for name, tensor in _states_of_weights(saved):  # of a gradient of rounding errors, no value repeats
                self._add(name, tensor, None)

    def _add(self, name: str, tensor: torch.Tensor, mean: float | None) -> None:
        self._tensors[name] = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), mean

    def empty_files(self) -> list[str]:
        """Return the names of the files of weights that hold no tensor and are still there: libraries remove a file that
        they only wrote in place of another."""
        return sorted(
            {os.path.basename(file) for file, held in self._files.items() if not held and os.path.exists(file)}
        )

    def unsaved(self) -> list[str]:
        """Return the trained weights that a model has not saved, though it has saved itself: see `SavedModels`."""
        return self._models.unsaved({file: held for file, held in self._files.items() if held})

    def loaded_otherwise(self, sample: SampleCall) -> list[str]:
        """Load what models and a plain optimizer have saved of themselves last, and return the weights that are then not
        as they were, what comes out otherwise for the sample, and what the optimizer does otherwise. To be called when the
        program has ended: see `loading_back` and `optimizer_back`. Nothing is known of what only all ranks together load, as
        a model is built under ZeRO-3: this rank is alone."""
        steps: list[str] = []
        with _disable_current_modes(), contextlib.suppress(RefusedCommunication), CommunicationWatch(refuses=True):
            steps += self._optimizers.stepping_otherwise()
        found: dict[str, None] = {}
        folders = [one for one in self._models.by_folder().items() if os.path.isdir(one[0])]
        with _disable_current_modes():
            for folder, saved in folders[-_FOLDERS_LOADED:]:
                own = saved.kind, saved.model(), folder, saved.tensors
                with contextlib.suppress(RefusedCommunication), CommunicationWatch(refuses=True):
                    found |= dict.fromkeys(loaded_otherwise(*own, self._mean_of, sample))
        return [*found, *steps]

    def _mean_of(self, tensor: torch.Tensor) -> float | None:
        return _mean(tensor) if self._contents else None

    def listed(self) -> list[SavedTensors]:
        """Return the saved tensors; those whose names differ only in numbers are one entry."""
        together: dict[tuple[str, str, tuple[int, ...]], list[float | None]] = {}
        for name, (dtype, shape, mean) in self._tensors.items():
            together.setdefault((without_numbers(name), dtype, shape), []).append(mean)
        return [
            SavedTensors(name=name, dtype=dtype, shape=list(shape), count=len(means), mean=_together(means))
            for (name, dtype, shape), means in together.items()
        ]


def _all_tensors(saved: Mapping[object, object]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, one in saved.items():
        if isinstance(one, torch.Tensor):
            yield str(name), one
        elif isinstance(one, Mapping):
            yield from _all_tensors(one)


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


def _states_of_weights(saved: object) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what a saved optimizer, or one in a mapping, has of each weight, by the weight's number or name. Counts of
    steps, which a release may hold as numbers, are left out."""
    if not isinstance(saved, Mapping):
        return
    for outer, optimizer in ((_OPTIMIZER, saved), *saved.items()):
        state = optimizer.get(_STATE) if isinstance(optimizer, Mapping) and _GROUPS in optimizer else None
        for weight, own in state.items() if isinstance(state, Mapping) else ():
            for name, one in own.items() if isinstance(own, Mapping) else ():
                if isinstance(name, str) and isinstance(one, torch.Tensor) and one.dim():
                    yield f"{outer}.{_STATE}.{weight}.{name}", one


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
