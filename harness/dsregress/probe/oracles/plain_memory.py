"""The memory that plain PyTorch needs to train one micro-batch: the activations of the memory oracle
(`dsregress.probe.oracles.ideal`).

Models whose layers are all alike run at two small depths only: every further layer adds what the one between them adds
(``tests/probe/oracles/test_plain_memory.py`` compares with the whole model, to the byte).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from typing import Any

import torch

from dsregress.probe.framework import Meter
from dsregress.probe.oracles.ideal import ModelSizes, PlainMemory
from dsregress.probe.workloads import objectives, workload
from dsregress.probe.workloads.workload import Workload
from vgpu.replacing import Patches

#: transformers' models that consist of equal layers between an embedding and a head.
_ALIKE = ("llama", "qwen2")
#: Depths at which they run: the first and the last layer of a model have neighbors of another kind, so not 1.
_SHALLOW = (2, 3)


def model_sizes(work: Workload, shape: Mapping[str, Any]) -> ModelSizes:
    """Return the sizes of the scenario's model. Allocate nothing."""
    if not _folds(shape):
        return _uncached_sizes(work, shape)
    few, more = (_uncached_sizes(work, _with_layers(shape, layers)) for layers in _SHALLOW)
    further = shape["num_hidden_layers"] - _SHALLOW[0]

    def deep(few: Sequence[int], more: Sequence[int]) -> list[int]:
        return [*few, *(list((Counter(more) - Counter(few)).elements()) * further)]

    return ModelSizes(deep(few.numels, more.numels), more.largest_module, deep(few.trained, more.trained))


def activations(work: Workload, shape: Mapping[str, Any], meter: Meter, device: str) -> PlainMemory:
    """Return the memory that one forward and backward without a framework takes beyond parameters. ``meter`` must be
    entered."""
    # If a module runs twice, the gradients of its first run are held until the backward of the second is done as well.
    if not _folds(shape) or objectives.objective_of(work).runs > 1:
        return whole_model_memory(work, shape, meter, device)
    few, more = (astuple(whole_model_memory(work, _with_layers(shape, layers), meter, device)) for layers in _SHALLOW)
    further = shape["num_hidden_layers"] - _SHALLOW[0]
    return PlainMemory(*(shallow + (deeper - shallow) * further for shallow, deeper in zip(few, more)))


def whole_model_memory(work: Workload, shape: Mapping[str, object], meter: Meter, device: str) -> PlainMemory:
    """Return `activations` of the model with all its layers. Each gradient is dropped as soon as it is complete: a
    framework decides itself where it keeps gradients."""
    model = _build_on(work, shape, torch.device(device))
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(_drop)
    objective = objectives.objective_of(work)
    before = _held(meter)
    data = objective.data(work, shape["vocab_size"], 0, 0, 0, device)
    base = _held(meter)
    taken = [PlainMemory(base - before, 0, 0, 0)]
    with original_linear():
        for loss_of in objective.losses:
            meter.begin()
            loss = loss_of(model, data)
            forward = meter.end()
            meter.begin()
            loss.backward()
            backward = meter.end()
            taken.append(
                PlainMemory(
                    batch=base - before,
                    forward_peak=forward.device_peak_bytes - base,
                    forward_retained=forward.device_retained_bytes - base,
                    backward_peak=backward.device_peak_bytes - base,
                )
            )
    return PlainMemory(*map(max, zip(*map(astuple, taken))))


@contextmanager
def original_linear() -> Iterator[None]:
    """Restore torch's linear function within the block: zero.Init replaces it for the rest of the process."""
    with Patches("zero.Init leaves its own") as patches:
        patches.replace(torch.nn.functional, "linear", torch._C._nn.linear)
        yield


def _folds(shape: Mapping[str, Any]) -> bool:
    return shape["model_type"] in _ALIKE and shape["num_hidden_layers"] > _SHALLOW[-1]


def _with_layers(shape: Mapping[str, object], layers: int) -> Mapping[str, object]:
    return {**shape, "num_hidden_layers": layers}


def _build_on(work: Workload, shape: Mapping[str, object], device: torch.device) -> torch.nn.Module:
    with device:
        return workload.build_model(work, workload.model_configuration(work, shape), work.torch_dtype)


def _uncached_sizes(work: Workload, shape: Mapping[str, object]) -> ModelSizes:
    model = _build_on(work, shape, torch.device("meta"))
    return ModelSizes(
        numels=[parameter.numel() for parameter in model.parameters()],
        trained=[parameter.numel() for parameter in model.parameters() if parameter.requires_grad],
        largest_module=max(sum(p.numel() for p in m.parameters(recurse=False)) for m in model.modules()),
    )


def _held(meter: Meter) -> int:
    meter.begin()
    return meter.end().device_retained_bytes


def _drop(parameter: torch.Tensor) -> None:
    parameter.grad = None
