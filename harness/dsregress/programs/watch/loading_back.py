"""Loads what a model has saved of itself by the library's own call, and compares it with what was saved: its weights and,
if it has not been trained since, what comes out of it.

This needs no baseline: whoever resumes, evaluates or serves a checkpoint gets what is loaded. An adapter is loaded into the
model that has it, whose adapter is emptied before, so it is done when the program has ended.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping

import torch

from dsregress.programs.watch.sample_call import ModelOutputs, SampleCall, distance
from dsregress.programs.watch.saved_models import HeldTensor, Mean, are_apart
from dsregress.programs.watch.tensor_names import without_numbers

#: Weights of the largest model that is loaded once more: it needs memory, and seconds.
_LARGEST = 500_000_000

#: How far outputs, or the values of a weight, may be apart as a share of their mean: dtypes differ.
_OUTPUT_TOLERANCE = 0.05


def loaded_otherwise(
    kind: type,
    model: torch.nn.Module | None,
    folder: str,
    saved: Mapping[str, HeldTensor],
    mean: Mean,
    sample: SampleCall,
) -> Iterator[str]:
    """Yield the weights that are loaded from the folder with other values than they had when the model saved itself there;
    if there are none, what comes out otherwise. ``kind`` is its class. Nothing is known if ``saved`` lacks values, as under
    ZeRO-3, where only all ranks together could load, or if its class cannot be loaded without further arguments."""
    size = sum(int(torch.Size(one.shape).numel()) for one in saved.values())
    if not saved or size > _LARGEST or any(one.mean is None for one in saved.values()):
        return
    own = {} if model is None or not _is_as_saved(model, saved, mean) else _weights(model, saved)
    before = sample.outputs(model) if own and model is not None else None
    loaded = _loaded(kind, model, folder, saved)
    held = {} if loaded is None else dict(loaded.named_parameters())
    are_alike = not any(weight.is_meta for weight in held.values())  # what no file has is not made up here
    for name, one in saved.items():
        weight = held.get(name)
        if weight is None or weight.is_meta or tuple(weight.shape) != one.shape or not weight.is_floating_point():
            continue
        found = float(weight.detach().abs().mean(dtype=torch.float64))
        if are_apart(one.mean, found):
            are_alike = False
            yield f"{without_numbers(name)}: on average {found:.3g} is loaded, and {one.mean:.3g} was saved"
        elif name in own and _have_other_values(own[name], weight):
            are_alike = False
            yield f"{without_numbers(name)}: other values are loaded than were saved, of the same mean"
    if are_alike and before is not None and loaded is not None and (after := sample.outputs(loaded)) is not None:
        yield from _told_apart(before, after)


def _is_as_saved(model: torch.nn.Module, saved: Mapping[str, HeldTensor], mean: Mean) -> bool:
    """Return True if no weight has changed since, to the last bit of its mean, and all are where they were: an adapter that
    was put into the model since moves them, and changes what comes out."""
    held = dict(model.named_parameters())
    return saved.keys() <= held.keys() and all(mean(held[name]) == one.mean for name, one in saved.items())


def _weights(model: torch.nn.Module, saved: Mapping[str, HeldTensor]) -> dict[str, torch.Tensor]:
    """Return the weights of a model by name. Those of an adapter are copies, because it is loaded into them."""
    held = {name: weight.detach() for name, weight in model.named_parameters() if name in saved}
    return {name: weight.clone() for name, weight in held.items()} if _is_adapter(type(model)) else held


def _have_other_values(own: torch.Tensor, loaded: torch.Tensor) -> bool:
    apart = (own.float() - loaded.detach().to(own.device).float()).abs().mean()
    return float(apart) > _OUTPUT_TOLERANCE * float(own.abs().float().mean())


def _is_adapter(kind: type) -> bool:
    return hasattr(kind, "load_adapter") and hasattr(kind, "get_base_model")


def _told_apart(before: ModelOutputs, after: ModelOutputs) -> Iterator[str]:
    apart = distance(before, after)
    if apart is None or not apart > _OUTPUT_TOLERANCE:
        return
    if before.loss is not None and after.loss is not None and abs(after.loss - before.loss) > 0.01 * abs(before.loss):
        yield f"the same weights: the loss of the same rows is {after.loss:.3g} once it is loaded, and was {before.loss:.3g}"
    else:
        yield f"the same weights: its outputs for the same rows are {apart:.0%} apart from those before"


def _loaded(
    kind: type, model: torch.nn.Module | None, folder: str, saved: Mapping[str, HeldTensor]
) -> torch.nn.Module | None:
    """Return the model that is loaded; None if it cannot be."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
        try:
            if not _is_adapter(kind):
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
