"""Loads what a model has saved of itself by the library's own call, and compares it with what was saved.

This needs no baseline: whoever resumes, evaluates or serves a checkpoint gets what is loaded. An adapter is loaded into the
model that has it, whose adapter is emptied before, so it is done when the program has ended.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping

import torch

from dsregress.programs.watch.saved_models import HeldTensor, are_apart
from dsregress.programs.watch.tensor_names import without_numbers

#: Weights of the largest model that is loaded once more: it needs memory, and seconds.
_LARGEST = 500_000_000


def loaded_otherwise(
    kind: type, model: torch.nn.Module | None, folder: str, saved: Mapping[str, HeldTensor]
) -> Iterator[str]:
    """Yield the weights that are loaded from the folder with other values than they had when the model saved itself there.
    ``kind`` is its class. Nothing is known if ``saved`` lacks values, as under ZeRO-3, where only all ranks together could
    load, or if the program's class cannot be loaded without further arguments."""
    size = sum(int(torch.Size(one.shape).numel()) for one in saved.values())
    if not saved or size > _LARGEST or any(one.mean is None for one in saved.values()):
        return
    loaded = _loaded(kind, model, folder, saved)
    held = {} if loaded is None else dict(loaded.named_parameters())
    for name, before in saved.items():
        weight = held.get(name)
        if weight is None or weight.is_meta or tuple(weight.shape) != before.shape or not weight.is_floating_point():
            continue
        mean = float(weight.detach().abs().mean(dtype=torch.float64))
        if are_apart(before.mean, mean):
            yield f"{without_numbers(name)}: on average {mean:.3g} is loaded, and {before.mean:.3g} was saved"


def _loaded(
    kind: type, model: torch.nn.Module | None, folder: str, saved: Mapping[str, HeldTensor]
) -> torch.nn.Module | None:
    """Return the model that is loaded; None if it cannot be."""
    is_adapter = hasattr(kind, "load_adapter") and hasattr(kind, "get_base_model")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
        try:
            if not is_adapter:
                return kind.from_pretrained(folder) if hasattr(kind, "from_pretrained") else None
            if model is None:
                return None
            for name, weight in model.named_parameters():
                if name in saved:
                    weight.zero_()
            model.load_adapter(folder, adapter_name=model.active_adapter)
        except Exception:  # a class of the program's own may need more, and a release may refuse: nothing is known
            return None
    return model
