"""A remedy is a request that reads like one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dsregress.advisories.advisory import Remedy
from dsregress.advisories.shipped import read_advisories
from dsregress.probe.factors import BY_NAME
from dsregress.report.advisory_words import remedy_request

CONFIGURED = [(one, value) for one in BY_NAME.values() if one.key for value in one.explored]


def requested(fact: str, value: Any) -> str:
    return remedy_request(Remedy(text=BY_NAME[fact].text((value,)), fact=fact, value=value))


@pytest.mark.parametrize(
    ("fact", "value", "request_"),
    [
        ("hpz_partition_size", None, "leave hpZ unset"),
        ("gradient_accumulation_dtype", None, "leave gradient accumulation dtype unset"),
        ("contiguous_gradients", False, "turn contiguous_gradients off"),
        ("overlap_comm", True, "turn overlap_comm on"),
        ("allgather_bucket_size", 4096, "set allgather_bucket_size to 4096"),
        ("offload_optimizer", False, "train without offload of the optimizer"),
        ("gradient_checkpointing", "none", "train without gradient checkpointing"),
        ("zero_stage", 3, "train with ZeRO stage 3"),
        ("dtype", "fp16", "train with dtype fp16"),
        ("zero_init", False, "use a model that is whole before `initialize`"),
        ("reduce_bucket_size", None, "use a reduce_bucket_size larger than every weight"),
    ],
)
def test_a_setting_is_requested_by_what_it_sets(fact: str, value: Any, request_: str) -> None:
    assert requested(fact, value) == request_


@pytest.mark.parametrize(("factor", "value"), CONFIGURED, ids=lambda one: getattr(one, "name", repr(one)))
def test_a_key_is_never_set_to_words_that_are_no_value(factor: Any, value: Any) -> None:
    said = requested(factor.name, value)
    assert "not configured" not in said or value in factor.words
    assert not re.fullmatch(r"(set|use|train with) \S+ (on|off|None)", said)


def test_a_whole_request_stays_as_it_is() -> None:
    text = "set `gradient_clipping`; 0.0 keeps the old behaviour"
    assert remedy_request(Remedy(text=text, fact="gradient_clipping", value=0.0)) == text


def test_the_advisories_request_nothing_else() -> None:
    """Read these: each is the end of "if you ..."."""
    settings = {remedy_request(one) for record in read_advisories() for one in record.remedies if not one.package}
    assert sorted(settings) == [
        "call `engine.optimizer.__dict__.clear()` after `engine.destroy()`, set `engine.optimizer = None` and each "
        "parameter's `ds_tensor.data = torch.empty(0)`",
        "call `get_peft_model(..., autocast_adapter_dtype=False)`; it saves bf16",
        "give `gradient_checkpointing=True`",
        "give `use_reentrant=True`",
        "give at least one warmup step",
        "install Pillow",
        "install requests",
        "leave `round_robin_gradients` off",
        "leave `zero_quantized_weights` off",
        "leave gradient accumulation dtype unset",
        "leave hpZ unset",
        "put a `scheduler` into the DeepSpeed configuration",
        "remove `engine.module_forward_pre_hook` and `engine.module_forward_post_hook` after `engine.destroy()`",
        "set `gradient_clipping`; 0.0 keeps the old behaviour",
        "set `initial_scale_power`",
        "set `trainer.model_accepts_loss_kwargs = False`",
        "train with ZeRO stage 0",
        "train with ZeRO stage 1",
        "train with ZeRO stage 2",
        "train with ZeRO stage 3",
        "train with ZeRO-2, whose checkpoints list them",
        "train with dtype fp16",
        "train with dtype fp32",
        "train with offload of the optimizer",
        "train with torch_autocast",
        "train without gradient checkpointing",
        "train without offload of the optimizer",
        "turn contiguous_gradients off",
        "use `safe_set_local_grad`",
        "use a model that is whole before `initialize`",
        "use a reduce_bucket_size larger than every weight",
    ]
