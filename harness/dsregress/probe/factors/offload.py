"""States that are kept on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsregress.probe.factor import Configured, need, switch


def _on_host(job: Configured) -> Mapping[str, object]:
    return {"device": "cpu", "pin_memory": True} if job.pins_memory else {"device": "cpu"}


def _offloaded_optimizer(value: bool, job: Configured) -> Mapping[str, Any]:
    # The passed optimizer stays in use: DeepSpeed's own is a C++ extension to be compiled.
    offloaded = {"zero_optimization": {"offload_optimizer": _on_host(job)}, "zero_force_ds_cpu_optimizer": False}
    return offloaded if value else {}


def _offloaded_parameters(value: bool, job: Configured) -> Mapping[str, object]:
    return {"zero_optimization": {"offload_param": _on_host(job)}} if value else {}


OPTIMIZER = switch(
    "offload_optimizer",
    "offload of the optimizer",
    group="sharding",
    place=80,
    named_at=150,
    needs=(need("zero_stage", 1, 2, 3),),
    configured=True,
    of_trainer=True,
    configure=_offloaded_optimizer,
)

PARAMETERS = switch(
    "offload_param",
    "offload of the parameters",
    group="sharding",
    place=90,
    named_at=160,
    needs=(need("zero_stage", 3),),
    configured=True,
    configure=_offloaded_parameters,
)
