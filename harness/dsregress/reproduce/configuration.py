"""A cell's parameters -> the dictionary for ``deepspeed.initialize``: only what is configured. Pure.

The factors (`dsregress.probe.factors`) make its entries, as they do for the cell itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from dsregress.probe.factor import ZERO, Configured, Factor, either
from dsregress.probe.factors import FACTORS, deepspeed_configuration

#: The order of a script's entries. What is not named comes behind the others, before ``zero_optimization``, the longest.
_ORDER = (
    *("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "zero_allow_untested_optimizer", "optimizer"),
    *("zero_force_ds_cpu_optimizer", "torch_autocast", "bf16", "fp16", "scheduler", "gradient_clipping"),
    *("communication_data_type", "prescale_gradients", "data_types"),
)
_ZERO_ORDER = (
    *("stage", "overlap_comm", "contiguous_gradients", "round_robin_gradients", "reduce_scatter"),
    *("reduce_bucket_size", "allgather_bucket_size", "sub_group_size", "zero_hpz_partition_size"),
    *("allgather_partitions", "use_multi_rank_bucket_allreduce", "memory_efficient_linear"),
    *("stage3_use_all_reduce_for_fetch_params", "stage3_prefetch_bucket_size"),
    *("stage3_param_persistence_threshold", "stage3_max_live_parameters", "stage3_max_reuse_distance"),
)

#: Optimizers of torch that ZeRO accepts without ``zero_allow_untested_optimizer``.
_TESTED = ("Adam", "AdamW")

#: Keys that accompany another setting: torch's own optimizer with offload, and a loss scale at which no step is skipped.
_COMPANIONS = ("zero_force_ds_cpu_optimizer", "initial_scale_power")


class Optimizer(msgspec.Struct, frozen=True, kw_only=True):
    """An optimizer of ``torch.optim``."""

    name: str
    learning_rate: float
    options: dict[str, Any] = {}  #: of DeepSpeed, if it makes the optimizer by its name

    @property
    def entry(self) -> dict[str, Any]:
        """The entry of DeepSpeed's configuration that names it."""
        return {"type": self.name, "params": {"lr": self.learning_rate, **self.options}}


def settings(p: Mapping[str, object], optimizer: Optimizer | None, *, sized: bool, samples: int = 8) -> dict[str, Any]:
    """Return the dictionary for ``deepspeed.initialize``: only what is configured. ``optimizer`` is named by the
    configuration or passed to ``initialize``; ``sized``: with sizes for a tiny model; ``samples``: of a micro-batch."""
    base: dict[str, Any] = {"train_micro_batch_size_per_gpu": samples}
    if optimizer is not None and optimizer.name not in _TESTED:
        base["zero_allow_untested_optimizer"] = True
    job = Configured(
        values=_configured_values(p, sized=sized),
        optimizer=None if optimizer is None else optimizer.entry,
        learning_rate=0.001 if optimizer is None else optimizer.learning_rate,
    )
    found = deepspeed_configuration(job, base)
    zero = found.pop("zero_optimization")
    return {**_in_order(found, _ORDER), "zero_optimization": _in_order(zero, _ZERO_ORDER)}


def _configured_values(p: Mapping[str, object], *, sized: bool) -> dict[str, object]:
    """Return the value of each factor, None where DeepSpeed's default does: for what a library would resolve, and for sizes
    that nothing needs."""
    is_needless = not sized or p["zero_stage"] == 0  # where nothing is partitioned, nothing is in buckets
    found = {}
    for factor in FACTORS:
        value = factor.value_in(p)
        is_default = value == "auto" or (factor.is_size and is_needless and value == factor.simplest)
        found[factor.name] = None if is_default else value
    return found


def _in_order(entries: Mapping[str, object], order: Sequence[str]) -> dict[str, Any]:
    return {key: entries[key] for key in (*order, *entries) if key in entries}


def of_frozen(p: Mapping[str, object]) -> dict[str, Any]:
    """Return the parameters of a second engine that only evaluates, as the workload has it: without an optimizer."""
    kept = ("zero_stage", "dtype", "torch_autocast", "caller_autocast", "offload_param", "persistence_threshold")
    own = {**{one.name: one.values[0] for one in FACTORS}, **{name: p[name] for name in kept if name in p}}
    return {**own, "zero_stage": 3 if p["zero_stage"] == 3 else 0, "gradient_clipping": None}


def size_keys() -> list[str]:
    """Return the keys of ``zero_optimization`` that have a size for a tiny model."""
    return [factor.key.removeprefix(ZERO) for factor in FACTORS if factor.is_size]


def in_keys(factor: Factor, shown: Sequence[object], hidden: Collection[object], p: Mapping[str, object]) -> str:
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


def _entries(factor: Factor, value: object, p: Mapping[str, object]) -> dict[str, object]:
    """Return the entries that a value adds to the dictionary, compared with another value; empty if it configures
    nothing."""
    known = {**{one.name: one.values[0] for one in FACTORS}, **p}
    other = next((one for one in factor.values if one != value), value)
    optimizer = Optimizer(name="AdamW", learning_rate=0.001)
    own, without = (settings({**known, factor.name: one}, optimizer, sized=False) for one in (value, other))
    return _added(_as_asked(own), _as_asked(without))


def _as_asked(found: Mapping[str, object]) -> dict[str, object]:
    """Return the dictionary without the entries that only let a tiny job train on a CPU."""
    return {
        key: _as_asked(value) if isinstance(value, dict) else value
        for key, value in found.items()
        if key not in _COMPANIONS
    }


def _added(own: Mapping[str, object], without: Mapping[str, object]) -> dict[str, object]:
    found = {}
    for key, value in own.items():
        before = without.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            value = _added(value, before) or before
        if value != before:
            found[key] = value
    return found


def _innermost(entries: Mapping[str, object]) -> str | None:
    """Return the value of a single setting; None if there are several."""
    value: Any = entries
    while isinstance(value, Mapping):
        if len(value) != 1:
            return None
        value = next(iter(value.values()))
    return json.dumps(value)
