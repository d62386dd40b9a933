"""Lets a program train without DeepSpeed: ``initialize`` makes a `PlainEngine`, and weights are whole."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from dsregress.programs.truth import ulysses
from dsregress.programs.truth.plain_engine import EngineStart, GivenToInitialize, PlainEngine
from dsregress.programs.truth.plain_settings import HIDDEN_STAGE, NoTruth
from vgpu.replacing import Patches

#: Weights of the engines, by the order in which a program makes them, then by name.
Starts = Mapping[int, Mapping[str, torch.Tensor]]


class Whole(contextlib.AbstractContextManager[None]):
    """Replaces ``zero.Init`` and ``zero.GatheredParameters``: weights are whole."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass


@contextlib.contextmanager
def without_deepspeed(
    perturbations: int | None = None, perturbed: torch.dtype | None = None, starts: Starts | None = None
) -> Iterator[None]:
    """Replace DeepSpeed within the block. For the arguments see `EngineStart`. The program gets NoTruth for what plain
    PyTorch cannot do."""
    import deepspeed

    made: list[PlainEngine] = []

    def initialize(
        args: object = None,
        model: object = None,
        optimizer: object = None,
        model_parameters: object = None,
        training_data: object = None,
        lr_scheduler: object = None,
        distributed_port: object = None,
        mpu: object = None,
        dist_init_required: object = None,
        collate_fn: object = None,
        config: object = None,
        mesh_param: object = None,
        config_params: object = None,
        **others: object,
    ) -> tuple[Any, Any, Any, Any]:
        if isinstance(model, deepspeed.PipelineModule):
            raise NoTruth("it trains a pipeline")
        if mesh_param is not None or others:
            raise NoTruth(f"it calls deepspeed.initialize with {'a mesh' if mesh_param else ', '.join(others)}")
        deepspeed.init_distributed(dist_init_required=dist_init_required)
        ulysses.use_groups(patches, mpu)
        given = (config, config_params, getattr(args, "deepspeed_config", None))
        engine = PlainEngine(
            model,
            next((found for found in given if found is not None), None),
            GivenToInitialize(
                optimizer=optimizer,
                parameters=model_parameters,
                scheduler=lr_scheduler,
                training_data=training_data,
                collate_fn=collate_fn,
                sequence_ranks=ulysses.sequence_ranks(mpu),
            ),
            EngineStart(weights=(starts or {}).get(len(made), {}), perturbations=perturbations, perturbed=perturbed),
        )
        engine.number = len(made)
        made.append(engine)
        return engine, engine.optimizer, engine.training_dataloader, engine.lr_scheduler

    with Patches("training in plain PyTorch") as patches:
        engine = importlib.import_module("deepspeed.runtime.engine").DeepSpeedEngine
        patches.add(
            PlainEngine, "names_of_deepspeed", frozenset(name for name in dir(engine) if not name.startswith("__"))
        )
        patches.everywhere(deepspeed.initialize, initialize, "initialize")
        patches.everywhere(engine, PlainEngine, "DeepSpeedEngine")
        _keep_weights_whole(patches)
        ulysses.attend_to_whole_sequences(patches)
        yield


def _keep_weights_whole(patches: Patches) -> None:
    from deepspeed.runtime.zero import partition_parameters

    for name in ("Init", "GatheredParameters"):
        patches.everywhere(getattr(partition_parameters, name), Whole, name)
    _hide_zero(patches)


def _hide_zero(patches: Patches) -> None:
    """Hide ZeRO's stage from transformers and accelerate, which load, gather and offload by it."""
    try:
        from accelerate.utils import dataclasses
        from accelerate.utils import deepspeed as integration
    except ImportError:
        return
    original, read = dataclasses.DeepSpeedPlugin.__post_init__, integration.HfDeepSpeedConfig.set_stage_and_offload

    def set_stage_and_offload(config: Any) -> None:
        zero = config.config.get("zero_optimization")
        if isinstance(zero, dict):
            for name in ("offload_optimizer", "offload_param"):
                zero.pop(name, None)
            zero[HIDDEN_STAGE], zero["stage"] = zero.get("stage", 0), 0
        read(config)

    def post_init(plugin: Any, *args: object) -> None:
        original(plugin, *args)
        plugin.zero_stage = 0
        plugin.zero3_init_flag = False

    patches.replace(integration.HfDeepSpeedConfig, "set_stage_and_offload", set_stage_and_offload)
    patches.replace(dataclasses.DeepSpeedPlugin, "__post_init__", post_init)
