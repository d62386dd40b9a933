"""What plain PyTorch takes to train one micro-batch: the activations of the memory oracle (`harness.probe.ideal`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from harness.probe import workload
from harness.probe.framework import Meter
from harness.probe.ideal import Model, Plain
from harness.probe.workload import Workload


def model_of(work: Workload, shape: Mapping[str, Any]) -> Model:
    """The sizes of the scenario's model. Nothing is allocated."""
    return _sizes(_build(work, shape, torch.device("meta")))


def activations(work: Workload, shape: Mapping[str, Any], meter: Meter, device: str) -> Plain:
    """Runs one forward and backward without any framework, inside the entered ``meter``, and says what they took beyond
    the parameters. Each gradient is dropped as soon as it is there: where gradients go is the framework's business."""
    model = _build(work, shape, torch.device(device))
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(_drop)
    before = _held(meter)
    ids = workload.batch(work, shape["vocab_size"], 0, 0, 0, device)
    batch = _held(meter) - before
    meter.begin()
    loss = workload.loss(model, ids)
    forward = meter.end()
    meter.begin()
    loss.backward()
    backward = meter.end()
    base = before + batch
    return Plain(
        batch=batch,
        forward_peak=forward.device_peak_bytes - base,
        forward_retained=forward.device_retained_bytes - base,
        backward_peak=backward.device_peak_bytes - base,
    )


def _build(work: Workload, shape: Mapping[str, Any], device: torch.device) -> torch.nn.Module:
    with device:
        return workload.build(work, workload.configuration(work, shape), work.torch_dtype)


def _sizes(model: torch.nn.Module) -> Model:
    return Model(
        numels=[parameter.numel() for parameter in model.parameters()],
        largest_module=max(sum(p.numel() for p in m.parameters(recurse=False)) for m in model.modules()),
    )


def _held(meter: Meter) -> int:
    meter.begin()
    return meter.end().device_retained_bytes


def _drop(parameter: torch.Tensor) -> None:
    parameter.grad = None
