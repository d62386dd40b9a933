"""The content of a configuration's checkpoint, as the installed transformers itself names it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import torch

from skeletons.safetensors import StoredTensor
from skeletons.table_files import read_table
from skeletons.weights import weight

#: torch's dtypes -> their names in a checkpoint.
_DTYPES = {getattr(torch, name): str(short) for name, short in read_table("dtypes").items()}


def build_model(config: object, device: str) -> torch.nn.Module:
    """Build the model of a configuration, of the class that its ``architectures`` names. Raise whatever the class raises.

    On ``meta`` no memory is taken. Parameters keep the default dtype: a checkpoint's is that of the configuration.
    """
    import transformers

    named = (getattr(config, "architectures", None) or [""])[0]
    kind = getattr(transformers, named, None)
    with torch.device(device), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind is not None:
            model = kind(config)
        elif type(config) in transformers.AutoModelForCausalLM._model_mapping:
            model = transformers.AutoModelForCausalLM.from_config(config)
        else:
            model = transformers.AutoModel.from_config(config)
        if hasattr(model, "tie_weights"):
            model.tie_weights()
    return model


def checkpoint_entries(model: torch.nn.Module, dtype: torch.dtype) -> list[StoredTensor]:
    """Return the tensors that ``save_pretrained`` would write, in its order: each tied one once."""
    return [
        StoredTensor(
            name=name, dtype=_DTYPES[dtype if tensor.is_floating_point() else tensor.dtype], shape=tuple(tensor.shape)
        )
        for name, tensor in _saved(model).items()
    ]


def checkpoint_contents(model: torch.nn.Module, dtype: torch.dtype) -> Callable[[StoredTensor], bytes]:
    """Return a function for the bytes of a tensor in ``dtype``, in row-major order: parameters are a function of their name
    (`parameter_value`), buffers those of ``model``, which is on the CPU."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    saved = _saved(model)

    def of(entry: StoredTensor) -> bytes:
        tensor = parameter_value(entry.name, entry.shape) if entry.name in parameters else saved[entry.name].detach()
        if tensor.is_floating_point():
            tensor = tensor.to(dtype)
        return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

    return of


def parameter_value(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a parameter's values, see `skeletons.weights`; the scales of norms under other names are around 1 too. A
    vector named ``weight`` is a scale: linear layers have matrices."""
    values = weight(name, shape)
    scale = len(shape) == 1 and name.endswith("weight") and not name.endswith("norm.weight")
    return values + 1 if scale else values


def torch_dtype(name: str | None) -> torch.dtype:
    """Return the dtype of a configuration's ``torch_dtype``; None means fp32, as transformers reads it. Raise ValueError for
    a dtype that no checkpoint has."""
    found = getattr(torch, (name or "float32").removeprefix("torch."), None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point or found not in _DTYPES:
        raise ValueError(f"no dtype of a checkpoint: {name}")
    return found


def _saved(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors to save: of several names of one tensor, the one that the class does not declare tied to
    another."""
    state = model.state_dict(keep_vars=True)
    tied = getattr(model, "_tied_weights_keys", None) or ()
    by_tensor: dict[int, list[str]] = {}
    for name, tensor in state.items():
        by_tensor.setdefault(id(tensor), []).append(name)
    kept = set()
    for names in by_tensor.values():
        free = [name for name in names if not any(re.search(pattern, name) for pattern in tied)]
        kept.add((free if len(names) > 1 and free else names)[0])
    return {name: tensor for name, tensor in state.items() if name in kept}
