"""The truth about memory: what a rank must hold according to ZeRO, term by term. Pure arithmetic, standard library only.

It needs no baseline: a release that holds more than this, by more than rounding and bookkeeping, holds something that
the configuration does not require. The terms are upper bounds of what it permits, so a sound release is at or below
them.

Sources, named in `TERMS`: the ZeRO paper (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion
Parameter Models", 2020, arXiv:1910.02054), section 5 for the shares and section 6 for buffers; ZeRO-Offload
(arXiv:2101.06840) for what moves to the host; DeepSpeed's configuration reference
(https://www.deepspeed.ai/docs/config-json/) for the window and the buckets. Activations are measured, not modelled:
those of the same model trained by plain PyTorch (`dsregress.probe.oracles.plain_memory`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from vgpu.json_tables import decoded_text_lists, table_beside

#: Adam keeps two fp32 moments (the paper's K = 12 is master copy + momentum + variance, 4 bytes each).
_FP32 = 4
_MOMENTS = 2 * _FP32
#: torch's AdamW, one tensor at a time, has two fp32 temporaries of the tensor's size alive at once: the square root of
#: the variance, and that divided by its bias correction (torch/optim/adam.py, `_single_tensor_adam`).
_OPTIMIZER_TEMPORARIES = 2 * _FP32

#: Term -> (meaning, source).
TERMS = decoded_text_lists(table_beside(__file__))


@dataclasses.dataclass(frozen=True)
class IdealJob:
    """The part of the configuration that decides how much is held. Defaults are those that DeepSpeed documents."""

    world_size: int
    element_bytes: int  #: of a parameter
    stage: int = 3
    gradient_bytes: int = 0  #: of a gradient that is kept; 0: as a parameter
    offload_optimizer: bool = False
    offload_param: bool = False
    reduce_bucket_size: int = 500_000_000  #: elements, as all sizes below
    persistence_threshold: int = 100_000
    max_live_parameters: int = 1_000_000_000
    max_reuse_distance: int = 1_000_000_000
    prefetch_bucket_size: int = 50_000_000
    sub_group_size: int = 1_000_000_000
    hpz_partition_size: int = 1
    micro_batches: int = 1
    backwards: int = 1  #: of each micro-batch, each after its own forward
    cublas_bytes: int = 0  #: that a GPU's cuBLAS handle takes


@dataclasses.dataclass(frozen=True)
class ModelSizes:
    """The sizes of the model that decide how much is held. Tied parameters count once."""

    numels: Sequence[int]  #: elements of each parameter
    largest_module: int  #: elements of the parameters that one module holds itself: they are fetched together
    trained: Sequence[int]  #: of those that are trained, which alone have gradients and optimizer state


@dataclasses.dataclass(frozen=True)
class PlainMemory:
    """The memory that plain PyTorch takes for one micro-batch beyond parameters and gradients, in bytes."""

    batch: int
    forward_peak: int
    forward_retained: int
    backward_peak: int


Terms = dict[str, int]


def from_configuration(
    zero: Mapping[str, Any],
    *,
    world_size: int,
    element_bytes: int,
    gradient_bytes: int,
    micro_batches: int,
    backwards: int = 1,
    cublas_bytes: int = 0,
) -> IdealJob:
    """Return the job that the ``zero_optimization`` dictionary of a DeepSpeed configuration describes."""
    names = {
        "reduce_bucket_size": "reduce_bucket_size",
        "stage3_param_persistence_threshold": "persistence_threshold",
        "stage3_max_live_parameters": "max_live_parameters",
        "stage3_max_reuse_distance": "max_reuse_distance",
        "stage3_prefetch_bucket_size": "prefetch_bucket_size",
        "sub_group_size": "sub_group_size",
        "zero_hpz_partition_size": "hpz_partition_size",
    }
    given = {field: int(zero[name]) for name, field in names.items() if zero.get(name) is not None}
    return IdealJob(
        world_size=world_size,
        element_bytes=element_bytes,
        stage=int(zero["stage"]),
        gradient_bytes=gradient_bytes,
        offload_optimizer="offload_optimizer" in zero,
        offload_param="offload_param" in zero,
        micro_batches=micro_batches,
        backwards=backwards,
        cublas_bytes=cublas_bytes,
        **given,
    )


def ideal_memory(
    model: ModelSizes, job: IdealJob, plain: PlainMemory | None, *, one_memory: bool = False
) -> dict[str, Terms]:
    """Return ``backward.device_retained_bytes`` -> term -> bytes, for what each phase may hold at its end and at its
    peak.

    Without ``plain``, the measured activations, metrics that depend on them are left out. ``one_memory``: the memory of
    the host is the device's, as with the CPU as the accelerator. Empty without ZeRO (stage 0).
    """
    if job.stage == 0:
        return {}
    device, host = _states(model, job)
    if one_memory:
        device, host = {name: device.get(name, 0) + host.get(name, 0) for name in {**device, **host}}, {}
    on_host = job.offload_optimizer and not one_memory
    moments = {"optimizer": _share_elements(model.trained, job) * _MOMENTS}
    lasting = {**device, **_libraries(job)} if on_host else {**device, **_libraries(job), **moments}
    lasting_host = {**host, **moments} if on_host else host
    batch = {"batch": plain.batch * job.micro_batches} if plain is not None else {}
    live = {"window": _window(model, job)} if job.stage == 3 else {}
    reduced = _while_reducing(model, job)
    in_forward = {**lasting, **batch, **live, **(reduced if job.micro_batches * job.backwards > 1 else {})}
    after_backward = {**lasting, **batch, **live, **reduced}
    workspace = {"workspace": _sub_group(model, job) * (_OPTIMIZER_TEMPORARIES + (0 if on_host else _FP32))}
    found: dict[str, Terms] = {
        "init.device_retained_bytes": device,
        "backward.device_retained_bytes": after_backward,
        "step.device_retained_bytes": {**lasting, **batch},
        "step.device_peak_bytes": {**after_backward, **({} if on_host else workspace)},
    }
    if plain is not None:
        on_the_way = {"in_flight": max(model.trained) * job.element_bytes}
        found["forward.device_retained_bytes"] = {**in_forward, "activations": plain.forward_retained}
        found["forward.device_peak_bytes"] = {**in_forward, "activations": plain.forward_peak}
        found["backward.device_peak_bytes"] = {**after_backward, **on_the_way, "activations": plain.backward_peak}
    if host:
        found["init.host_retained_bytes"] = host
        for phase in ("forward", "backward", "step"):
            found[f"{phase}.host_retained_bytes"] = lasting_host
        found["step.host_peak_bytes"] = {**lasting_host, **workspace} if on_host else lasting_host
    return found


def _states(model: ModelSizes, job: IdealJob) -> tuple[Terms, Terms]:
    """Return what is held from initialization on, on the device and on the host."""
    share, element = _share_elements(model.trained, job), job.element_bytes
    gradient = job.gradient_bytes or element
    device: Terms = {}
    host: Terms = {}
    if job.stage == 3:
        (host if job.offload_param else device)["parameters"] = _share_elements(model.numels, job) * element
        device["persistent"] = _persistent(model, job) * element
        device["buckets"] = job.reduce_bucket_size * element
        if job.hpz_partition_size > 1:
            device["secondary"] = sum(-(-n // job.hpz_partition_size) for n in model.numels) * element
    else:
        device["parameters"] = sum(model.numels) * element
    if job.offload_optimizer:  # fp32 gradients in addition to those that arrive in the parameters' type
        host["master"], host["gradients"] = share * _FP32, share * (_FP32 + gradient)
        if job.stage < 3:
            device["staging"] = host["staging"] = max(model.trained) * element
    else:
        device["master"] = share * _FP32
        if job.stage == 3:
            device["gradients"] = share * gradient
        elif job.stage == 1 and job.gradient_bytes:  # another dtype: buffers for all of them, from the start
            device["gradients"] = sum(model.trained) * gradient
    return device, host


def _libraries(job: IdealJob) -> Terms:
    """Return what PyTorch itself holds from the first step on: autograd multiplies matrices on a thread of its own, and each
    thread has a handle."""
    return {"cublas": 2 * job.cublas_bytes} if job.cublas_bytes else {}


def _while_reducing(model: ModelSizes, job: IdealJob) -> Terms:
    """Return what is held from the first gradient to the step; empty for stage 3, which holds it all along."""
    if job.stage == 3:
        return {}
    whole = sum(model.trained) * job.element_bytes
    largest = max(model.trained) * job.element_bytes
    kept = _share_elements(model.trained, job) * (job.gradient_bytes or job.element_bytes)
    terms = {
        "buckets": min(2 * job.reduce_bucket_size * job.element_bytes, whole),  # one is filled while one is reduced
        "in_flight": largest,
    }
    if not job.offload_optimizer:
        terms["gradients"] = whole + sum(model.trained) * job.gradient_bytes if job.stage == 1 else kept
    return terms


def _share_elements(numels: Sequence[int], job: IdealJob) -> int:
    """Return the number of elements of this rank. Stage 3 splits each parameter by itself and pads it; below, all of
    them are first concatenated, and padded to twice the ranks so that messages are aligned."""
    if job.stage == 3:
        return sum(-(-n // job.world_size) for n in numels)
    return -(-sum(numels) // (2 * job.world_size)) * 2


def _sub_group(model: ModelSizes, job: IdealJob) -> int:
    """Return the number of elements that the optimizer updates at once. A sub-group is closed by the parameter that
    fills it."""
    if job.stage < 3:
        return _share_elements(model.trained, job)
    return min(_share_elements(model.trained, job), job.sub_group_size + -(-max(model.trained) // job.world_size))


def _persistent(model: ModelSizes, job: IdealJob) -> int:
    return sum(n for n in model.numels if n <= job.persistence_threshold)


def _window(model: ModelSizes, job: IdealJob) -> int:
    """Return the bytes of whole parameters: those kept to be used again (or below max_live), those fetched ahead, and
    the module at work, which cannot do with less than its own."""
    partitioned = sum(model.numels) - _persistent(model, job)
    kept = max(job.max_live_parameters, job.max_reuse_distance)
    return min(partitioned, kept + job.prefetch_bucket_size + model.largest_module) * job.element_bytes
