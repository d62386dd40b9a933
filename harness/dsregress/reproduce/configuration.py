"""A cell's parameters -> the dictionary for ``deepspeed.initialize``: only what is configured. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from dsregress.reproduce.factors import FACTORS, SIZES, Factor, either

#: A cell's parameter -> its key in ``zero_optimization``, if it is configured.
ZERO_KEYS = {
    "overlap_comm": "overlap_comm",
    "contiguous_gradients": "contiguous_gradients",
    "round_robin_gradients": "round_robin_gradients",
    "reduce_scatter": "reduce_scatter",
    "reduce_bucket_size": "reduce_bucket_size",
    "allgather_bucket_size": "allgather_bucket_size",
    "sub_group_size": "sub_group_size",
    "hpz_partition_size": "zero_hpz_partition_size",
    "allgather_partitions": "allgather_partitions",
    "multi_rank_bucket_allreduce": "use_multi_rank_bucket_allreduce",
    "memory_efficient_linear": "memory_efficient_linear",
    "all_reduce_for_fetch": "stage3_use_all_reduce_for_fetch_params",
    "prefetch_bucket_size": "stage3_prefetch_bucket_size",
    "persistence_threshold": "stage3_param_persistence_threshold",
    "max_live_parameters": "stage3_max_live_parameters",
    "max_reuse_distance": "stage3_max_reuse_distance",
}

#: Optimizers of torch that ZeRO accepts without ``zero_allow_untested_optimizer``.
_TESTED = ("Adam", "AdamW")

#: The learning rate with which a warm-up begins.
FIRST_RATE = 0.0002


#: Keys that accompany another setting: torch's own optimizer with offload, and a loss scale at which no step is skipped.
_COMPANIONS = ("zero_force_ds_cpu_optimizer", "initial_scale_power")


class Optimizer(msgspec.Struct, frozen=True, kw_only=True):
    """An optimizer of ``torch.optim``."""

    name: str
    learning_rate: float
    options: dict[str, Any] = {}  #: of DeepSpeed, if it makes the optimizer by its name


def settings(p: Mapping[str, Any], optimizer: Optimizer | None, *, sized: bool, samples: int = 8) -> dict[str, Any]:
    """Return the dictionary for ``deepspeed.initialize``: only what is configured. ``optimizer`` is named by the
    configuration or passed to ``initialize``; ``sized``: with sizes for a tiny model; ``samples``: of a micro-batch."""
    zero: dict[str, Any] = {"stage": p["zero_stage"]}
    for name, key in ZERO_KEYS.items():
        is_needless = not sized or p["zero_stage"] == 0  # where nothing is partitioned, nothing is in buckets
        is_default = p.get(name) in (None, "auto") or (is_needless and p[name] == SIZES.get(name))
        if not is_default and (p["zero_stage"] == 3 or not key.startswith("stage3_")):
            zero[key] = p[name]
    for name in ("offload_optimizer", "offload_param"):
        if p[name]:
            zero[name] = {"device": "cpu"}
    found: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": samples,
        **({"gradient_accumulation_steps": p["gradient_accumulation_steps"]} if _engine_accumulates(p) else {}),
        "zero_optimization": zero,
    }
    if optimizer is not None and optimizer.name not in _TESTED:
        found["zero_allow_untested_optimizer"] = True
    if optimizer is not None and p.get("optimizer") == "configured":
        options = {"lr": optimizer.learning_rate, **optimizer.options}
        found["optimizer"] = {"type": optimizer.name, "params": options}
    if p["offload_optimizer"]:
        found["zero_force_ds_cpu_optimizer"] = False
    if p["zero_stage"] == 3 and p.get("exported") == "16bit":
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    if p.get("torch_autocast"):
        found["torch_autocast"] = {"enabled": True, "dtype": "float16" if p["dtype"] == "fp16" else "bfloat16"}
    elif p["dtype"] == "bf16" and not p.get("caller_autocast"):
        found["bf16"] = {"enabled": True}
    if p["dtype"] == "fp16" and not p.get("torch_autocast"):
        scale = {"initial_scale_power": 8} if p.get("loss_scale") is None else {"loss_scale": p["loss_scale"]}
        found["fp16"] = {"enabled": True, **scale}
    if p.get("warmup"):
        warmup = {"warmup_min_lr": FIRST_RATE, "warmup_num_steps": 2, "warmup_type": "linear"}
        found["scheduler"] = {"type": "WarmupLR", "params": warmup}
    if p.get("schedule"):
        rising = {"warmup_num_steps": 2, "warmup_type": "linear", "total_num_steps": 100}
        if p["schedule"] == "WarmupDecayLR":
            rate = optimizer.learning_rate if optimizer is not None else 0.001
            rising |= {"warmup_num_steps": 0, "warmup_max_lr": rate}
        found["scheduler"] = {"type": p["schedule"], "params": rising}
    if p["gradient_clipping"] is not None:
        found["gradient_clipping"] = p["gradient_clipping"]
    if p.get("communication_dtype") is not None:
        found["communication_data_type"] = p["communication_dtype"]
    if p.get("prescale_gradients") is not None:
        found["prescale_gradients"] = p["prescale_gradients"]
    if p["gradient_accumulation_dtype"] is not None:
        found["data_types"] = {"grad_accum_dtype": p["gradient_accumulation_dtype"]}
    found["zero_optimization"] = found.pop("zero_optimization")  # the longest
    return found


def of_frozen(p: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a second engine that only evaluates, as the workload has it: without an optimizer."""
    kept = ("zero_stage", "dtype", "torch_autocast", "caller_autocast", "offload_param", "persistence_threshold")
    own = {**{one.name: one.values[0] for one in FACTORS}, **{name: p[name] for name in kept if name in p}}
    return {**own, "zero_stage": 3 if p["zero_stage"] == 3 else 0, "gradient_clipping": None}


def accumulates_itself(p: Mapping[str, Any]) -> bool:
    """Return True if the script, not the configuration, determines which micro-batches make a step."""
    return bool(p.get("no_sync") or p.get("marks_boundary"))


def _engine_accumulates(p: Mapping[str, Any]) -> bool:
    return p["gradient_accumulation_steps"] > 1 and not accumulates_itself(p)


def in_keys(factor: Factor, shown: Sequence[Any], hidden: Collection[Any], p: Mapping[str, Any]) -> str:
    """Return a factor's values in words, like `Factor.text`, but with DeepSpeed's own keys for configured values:
    ``"zero_optimization": {"stage": 1}`` or ``2``. ``p`` has the other parameters."""
    configured = [{} if value is None or value is False else _entries(factor, value, p) for value in shown]
    if all(configured) and (limit := factor.limit(shown, hidden)) is not None:
        return f"`{json.dumps(next(iter(configured[0])))}` above {limit}"
    texts: list[str] = []
    for value, entries in zip(shown, configured, strict=True):
        if not entries:
            texts.append(factor.text((value,)))
        elif texts and entries.keys() == configured[0].keys() and (last := _innermost(entries)) is not None:
            texts.append(f"`{last}`")
        else:
            texts.append(f"`{json.dumps(entries)[1:-1]}`")
    return either(texts)


def _entries(factor: Factor, value: Any, p: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that a value adds to the dictionary, compared with another value; empty if it configures
    nothing."""
    known = {**{one.name: one.values[0] for one in FACTORS}, **p}
    other = next((one for one in factor.values if one != value), value)
    optimizer = Optimizer(name="AdamW", learning_rate=0.001)
    own, without = (settings({**known, factor.name: one}, optimizer, sized=False) for one in (value, other))
    return _added(_as_asked(own), _as_asked(without))


def _as_asked(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dictionary without the entries that only let a tiny job train on a CPU."""
    return {
        key: _as_asked(value) if isinstance(value, dict) else value
        for key, value in found.items()
        if key not in _COMPANIONS
    }


def _added(own: Mapping[str, Any], without: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in own.items():
        before = without.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            value = _added(value, before) or before
        if value != before:
            found[key] = value
    return found


def _innermost(entries: Mapping[str, Any]) -> str | None:
    """Return the value of a single setting; None if there are several."""
    value: Any = entries
    while isinstance(value, Mapping):
        if len(value) != 1:
            return None
        value = next(iter(value.values()))
    return json.dumps(value)
