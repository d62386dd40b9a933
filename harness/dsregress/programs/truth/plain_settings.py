"""The training that a DeepSpeed configuration promises, whatever ZeRO does with it: dtype, batches, clipping, optimizer.

Defaults are those that DeepSpeed documents (https://www.deepspeed.ai/docs/config-json/), so that a release that changed
one is found. A configuration that promises more than this module understands has no truth.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from vgpu.json_tables import decoded_text_lists, decoded_texts, table_beside


class NoTruth(Exception):
    """Plain PyTorch cannot do what the program does; one line says why."""


@dataclass(frozen=True, kw_only=True)
class PlainSettings:
    """Settings of one engine."""

    dtype: torch.dtype  #: that the model computes in
    micro_batch: int
    accumulation: int
    clip: float | None
    optimizer: Mapping[str, Any] | None  #: ``type`` and ``params``, as in the file
    scheduler: Mapping[str, Any] | None
    drop_last: bool
    fp16: Mapping[str, Any] = field(default_factory=dict)
    averages_sequences: bool = False  #: see `_averages_sequences`


#: Where a stage of ZeRO is kept that is hidden from what loads and gathers by it.
HIDDEN_STAGE = "hidden_stage"

_TABLE = table_beside(__file__)

#: Keys without effect on what is computed, except for its rounding: how it is divided, sent, logged and stored.
_WITHOUT_EFFECT = frozenset(decoded_texts(_TABLE["without_effect"]))

#: Entries of ZeRO's section and of the dtypes' own sections that change what is computed.
_WITH_EFFECT = decoded_text_lists(_TABLE["with_effect"])

#: Parallelism of a model: key -> the entry with the number of parts.
_SIZES = {"tensor_parallel": "autotp_size", "sequence_parallel_size": "", "data_parallel_size": ""}


def read_plain_settings(given: object, ranks: int) -> PlainSettings:
    """Return the settings of what a program gives to ``initialize``: a path, a dictionary, or JSON. Raise NoTruth if it
    promises more than plain PyTorch can do."""
    config = _loaded(given)
    for key, value in config.items():
        if key in _SIZES:
            size = value.get(_SIZES[key], 1) if isinstance(value, dict) else value
            if size > 1 and key != "data_parallel_size":
                raise NoTruth(f"plain PyTorch has no {key}")
        elif key not in _WITHOUT_EFFECT and not _is_off(value):
            raise NoTruth(f"what {key} of the DeepSpeed configuration trains is not known to plain PyTorch")
    for section, names in _WITH_EFFECT.items():
        for name in names:
            if not _is_off((config.get(section) or {}).get(name)):
                raise NoTruth(
                    f"what {section}.{name} of the DeepSpeed configuration trains is not known to plain PyTorch"
                )
    bf16 = {**(config.get("bfloat16") or {}), **(config.get("bf16") or {})}
    fp16 = config.get("fp16") or {}
    micro_batch, accumulation = _batches(config, ranks)
    return PlainSettings(
        dtype=torch.bfloat16 if bf16.get("enabled") else torch.float16 if fp16.get("enabled") else torch.float32,
        micro_batch=micro_batch,
        accumulation=accumulation,
        clip=config.get("gradient_clipping") or None,
        optimizer=config.get("optimizer"),
        scheduler=config.get("scheduler"),
        drop_last=bool(config.get("dataloader_drop_last", False)),
        fp16=fp16,
        averages_sequences=_averages_sequences(config.get("zero_optimization") or {}),
    )


def _averages_sequences(zero: Mapping[str, Any]) -> bool:
    """Return True if gradients are averaged over the ranks that divide a sequence, and not added up: ZeRO-3 does so where it
    scatters them as it reduces them (``reduce_scatter_coalesced``; no other path of DeepSpeed's 0.16.4 to 0.19.8)."""
    stage = zero.get(HIDDEN_STAGE, zero.get("stage", 0))
    return stage == 3 and bool(zero.get("reduce_scatter", True))


def _loaded(given: object) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    if isinstance(given, (str, os.PathLike)):
        if os.path.exists(given):
            with open(given, encoding="utf-8") as file:
                return dict(json.load(file))
        try:
            return dict(json.loads(base64.urlsafe_b64decode(os.fspath(given))))
        except (binascii.Error, ValueError):
            pass
    raise NoTruth("its DeepSpeed configuration is neither a dictionary nor a file")


def _is_off(value: object) -> bool:
    return not (value.get("enabled", bool(value)) if isinstance(value, dict) else value)


def _batches(config: Mapping[str, Any], ranks: int) -> tuple[int, int]:
    """Return (micro-batch, accumulation steps): any two of three sizes give the third."""
    whole, micro, steps = (
        config.get(key) for key in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    )
    if micro is None:
        if whole is None:
            raise NoTruth("its DeepSpeed configuration has no batch size")
        return int(whole) // ranks // int(steps or 1), int(steps or 1)
    if steps is None:
        steps = int(whole) // ranks // int(micro) if whole is not None else 1
    return int(micro), int(steps)


def make_optimizer(settings: PlainSettings, groups: list[object]) -> torch.optim.Optimizer:
    """Return torch's optimizer for that of the configuration. Raise NoTruth if torch has no equal one."""
    assert settings.optimizer is not None
    name = str(settings.optimizer.get("type", ""))
    params = dict(settings.optimizer.get("params") or {})
    if name.lower() in ("adam", "adamw"):
        torchs = params.pop("torch_adam", False)
        decoupled = params.pop("adam_w_mode", True) or name.lower() == "adamw"
        if not torchs:
            params.setdefault("weight_decay", 0.0)  # torch's AdamW has another default
        return _made(torch.optim.AdamW if decoupled else torch.optim.Adam, groups, params)
    kind = {"adagrad": torch.optim.Adagrad}.get(name.lower(), getattr(torch.optim, name, None))
    if not (inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)):
        raise NoTruth(f"plain PyTorch has no optimizer {name!r}")
    return _made(kind, groups, params)


def as_torch_optimizer(given: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Return torch's own optimizer for one of DeepSpeed's kernels. Raise NoTruth if torch has no equal one."""
    if not type(given).__module__.startswith("deepspeed."):
        return given
    if type(given).__name__ not in ("DeepSpeedCPUAdam", "FusedAdam"):
        raise NoTruth(f"plain PyTorch has no optimizer {type(given).__name__!r}")
    decoupled = bool(getattr(given, "adam_w_mode", True))
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    made = _made(kind, [{"params": group["params"]} for group in given.param_groups], {})
    for group in given.param_groups:  # kept, because a schedule may hold them
        for name, value in made.defaults.items():
            group.setdefault(name, value)
    made.param_groups = given.param_groups
    return made


def _made(
    kind: Callable[..., torch.optim.Optimizer], groups: list[object], params: Mapping[str, object]
) -> torch.optim.Optimizer:
    try:
        return kind(groups, **params)
    except TypeError as error:
        raise NoTruth(f"torch's optimizer does not have the same options: {error}") from None


class LossScale:
    """The factor of fp16 losses: fixed, or halved when a gradient overflows, as DeepSpeed documents ``fp16``."""

    def __init__(self, fp16: Mapping[str, Any]) -> None:
        fixed = float(fp16.get("loss_scale", 0))
        self._dynamic = not fixed
        self.value = fixed or 2.0 ** int(fp16.get("initial_scale_power", 16))
        self._window = int(fp16.get("loss_scale_window", 1000))
        self._patience = self._hysteresis = int(fp16.get("hysteresis", 2))
        self._least = float(fp16.get("min_loss_scale", 1))
        self._without_overflow = 0

    def stepped(self, overflow: bool) -> None:
        """Adapt a dynamic scale after a step."""
        if not self._dynamic:
            return
        if overflow:
            self._without_overflow = 0
            if self._patience > 1:
                self._patience -= 1
            else:
                self.value = max(self.value / 2, self._least)
            return
        self._without_overflow += 1
        if self._without_overflow % self._window == 0:
            self._patience = self._hysteresis
            self.value *= 2
