"""Models that save themselves: whether all that they train is in the files that they leave, with its values.

This needs no baseline. A file may have other names, dtypes and shapes than the model has, as where a library splits fused
weights again. So a weight is missing only if nothing of its name and shape is there, and the files hold fewer numbers than
the model has.
"""

from __future__ import annotations

import os
import re
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import torch

from dsregress.programs.watch.tensor_names import without_numbers

#: How far the means of a weight and of what is saved of it may be apart: dtypes differ.
_TOLERANCE = 0.05

#: The mean of a tensor's absolute values; None if it is unknown.
Mean = Callable[[torch.Tensor], float | None]

#: Below it a mean counts as zero.
_NEAR_ZERO = 1e-6

#: Parts of names that wrappers add or that files leave out.
_OF_WRAPPERS = frozenset(("module", "base_model", "model", "modules_to_save", "base_layer", "_orig_mod"))

#: Most weights named.
_MOST_NAMED = 20


class HeldTensor(NamedTuple):
    """A tensor of a model, or of a file."""

    shape: tuple[int, ...]
    mean: float | None  #: of its absolute values; None if unknown


class SavedModel:
    """The weights that a model has when it saves itself."""

    def __init__(self, model: torch.nn.Module, mean: Mean) -> None:
        self.kind = type(model)
        self.model = weakref.ref(model)
        adapters = getattr(model, "peft_config", None)
        adapters = adapters if isinstance(adapters, Mapping) and hasattr(model, "base_model") else {}
        left_out = [] if adapters else list(getattr(model, "_keys_to_ignore_on_save", None) or ())
        self._without = frozenset(map(str, adapters)) | _OF_WRAPPERS
        self._tensors: dict[str, HeldTensor] = {}
        self._trained: set[str] = set()
        for name, weight in model.named_parameters():
            if hasattr(weight, "_fsdp_flattened") or "_flat_param" in name:
                self._tensors, self._trained = {}, set()  # FSDP1 has other tensors than it saves
                return
            is_saved = weight.requires_grad and not _is_of_a_prompt(name) if adapters else True
            if is_saved and not any(re.search(pattern, name) for pattern in left_out):
                shape = tuple(getattr(weight, "ds_shape", weight.shape))
                self._tensors[name] = HeldTensor(shape, mean(weight))
                if weight.requires_grad:
                    self._trained.add(name)

    @property
    def tensors(self) -> Mapping[str, HeldTensor]:
        """Return what the model had when it saved itself, by name."""
        return self._tensors

    def unsaved(self, files: Iterable[Mapping[str, HeldTensor]]) -> Iterator[str]:
        """Yield the trained weights that the files lack, or hold with other values."""
        saved = {name: one for file in files for name, one in file.items()}
        by_name: dict[str, list[HeldTensor]] = {}
        for name, one in saved.items():  # two of one name are what wrappers around each other hold
            by_name.setdefault(self._plain(name), []).append(one)
        spare = Counter(one.shape for one in saved.values())
        spare.subtract(Counter(one.shape for one in self._tensors.values()))
        lacks = _numbers_in(saved.values()) < _numbers_in(self._tensors.values())
        for name in sorted(self._trained):
            own, found = self._tensors[name], by_name.get(self._plain(name), [])
            alike = [one for one in found if one.shape == own.shape]
            if not found:
                if lacks and spare[own.shape] < 0:
                    yield f"{without_numbers(name)}: not saved"
            elif alike and all(are_apart(own.mean, one.mean) for one in alike):
                yield f"{without_numbers(name)}: on average {alike[0].mean:.3g} is saved, and {own.mean:.3g} is trained"

    def _plain(self, name: str) -> str:
        return ".".join(
            part for part in name.split(".") if part not in self._without and not part.endswith("_wrapped_module")
        )


class SavedModels:
    """The models that have saved themselves, by folder, each as it was when it did so last."""

    def __init__(self) -> None:
        self._models: dict[str, SavedModel] = {}

    def add(self, model: torch.nn.Module, folder: str, mean: Mean) -> None:
        """Add a model that has saved itself to a folder."""
        self._models.pop(place := os.path.abspath(folder), None)
        self._models[place] = SavedModel(model, mean)

    def overwritten(self, file: str) -> None:
        """Forget a model one of whose files is written once more: it holds what something else has made of it. A model that
        saves itself again is added once its files are written."""
        self._models = {folder: model for folder, model in self._models.items() if not _is_within(file, folder)}

    def by_folder(self) -> Mapping[str, SavedModel]:
        """Return the models by the folders that they have saved themselves to, in order."""
        return self._models

    def unsaved(self, files: Mapping[str, Mapping[str, HeldTensor]]) -> list[str]:
        """Return the trained weights that are not saved. ``files`` are those of weights: path -> tensors by name. What was
        removed again, or is another rank's to save, is left out."""
        found: dict[str, None] = {}
        for folder, model in self._models.items():
            own = [held for file, held in files.items() if _is_within(file, folder) and os.path.exists(file)]
            if own:
                found |= dict.fromkeys(model.unsaved(own))
        return list(found)[:_MOST_NAMED]


def _is_within(file: str, folder: str) -> bool:
    return file.startswith(folder + os.sep)


def _is_of_a_prompt(name: str) -> bool:
    """Return True for what makes a prompt: the prompt itself is saved."""
    return "prompt_encoder" in name.split(".")


def _numbers_in(tensors: Iterable[HeldTensor]) -> int:
    return sum(int(torch.Size(one.shape).numel()) for one in tensors)


def are_apart(own: float | None, saved: float | None) -> bool:
    """Return True if two means of what should be the same values are known, and differ."""
    return own is not None and saved is not None and abs(own - saved) > _TOLERANCE * max(own, saved, _NEAR_ZERO)
