"""Facts that a run of the job shows."""

from __future__ import annotations

from typing import Any

import pytest

from dsregress.advisories.job_facts import NO_VALUE, OneOf
from dsregress.advisories.stated.observed_run import facts_of_run, trained_tensors
from dsregress.probe.border.wire import Detail, Numerics, RankRecord, RunRecord

ZERO3 = {"zero_optimization.stage": 3, "gradient_accumulation_steps": 4, "bf16.enabled": True}
ENGINE = {"engine.optimizer": "DeepSpeedZeroOptimizer_Stage3", "deepspeed.zero_config.stage": 3}


def observed(
    configuration: dict[str, Any], deepspeed_config: dict[str, Any] | None = None, trained: tuple[str, ...] = ()
) -> dict[str, Any]:
    numerics = Numerics(trained=dict.fromkeys(trained, 8))
    record = RunRecord(outcome="passed", ranks=[RankRecord(rank=0, numerics=numerics)])
    detail = Detail(configuration=configuration, deepspeed_config=deepspeed_config or {})
    return {fact.name: fact.value for fact in facts_of_run(trained_tensors(record), detail)}


def test_what_an_engine_was_given_is_what_a_file_with_these_settings_states() -> None:
    found = observed(ENGINE, ZERO3)
    assert (found["zero_stage"], found["gradient_accumulation_steps"], found["dtype"]) == (3, 4, "bf16")
    assert found["overlap_comm"] is None
    assert found["fsdp"] is False


def test_a_job_without_an_engine_has_no_stage_of_zero() -> None:
    found = observed({"optimizer": "AdamW"})
    assert found["zero_stage"] == NO_VALUE
    assert "fsdp" not in found


def test_an_engine_whose_configuration_was_not_recorded_has_the_facts_of_its_settings() -> None:
    bf16 = {"deepspeed.bfloat16_config.enabled": True, "deepspeed.zero_config.offload_optimizer": None}
    schedule = {"deepspeed.scheduler_name": "WarmupDecayLR", "deepspeed.scheduler_params.warmup_num_steps": 3}
    found = observed({**ENGINE, **bf16, **schedule})
    assert (found["zero_stage"], found["dtype"], found["offload_optimizer"], found["fsdp"]) == (3, "bf16", False, False)
    assert (found["scheduler"], found["warmup_steps"]) == ("WarmupDecayLR", 3)
    assert "gradient_clipping" not in found  # of a default, or given: it does not say


def test_an_engine_without_settings_says_nothing_of_its_stage() -> None:
    assert "zero_stage" not in observed({"engine.optimizer": "DeepSpeedZeroOptimizer_Stage3"})


def test_a_trainers_settings_are_those_in_force() -> None:
    settings = {"trainer.eval_strategy": "steps", "trainer.gradient_checkpointing": True, "trainer.warmup_steps": 0}
    found = observed({**ENGINE, **settings}, ZERO3)
    assert found["trainer"] is True
    assert found["evaluate"] is True
    assert found["gradient_checkpointing"] == OneOf(("reentrant", "non_reentrant"))
    kind = {"trainer.gradient_checkpointing_kwargs.use_reentrant": False}
    assert observed({**ENGINE, **settings, **kind}, ZERO3)["gradient_checkpointing"] == "non_reentrant"


@pytest.mark.parametrize(
    ("trained", "lora", "whole"),
    [
        (("model.layers.*.q_proj.weight",), False, None),
        (("base_model.layers.*.q_proj.lora_A.default.weight",), True, ""),
        (("base_model.layers.*.q_proj.lora_A.default.weight", "lm_head.modules_to_save.default.weight"), True, None),
        ((), None, None),
    ],
)
def test_names_of_trained_tensors_tell_adapters(trained: tuple[str, ...], lora: bool | None, whole: str | None) -> None:
    found = observed(ENGINE, ZERO3, trained)
    assert (found.get("lora"), found.get("lora_modules_to_save")) == (lora, whole)
