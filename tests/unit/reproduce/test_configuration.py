"""What a cell's parameters are in DeepSpeed's own keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dsregress.probe.factors import BY_NAME
from dsregress.reproduce.configuration import in_keys


@pytest.mark.parametrize(
    ("name", "shown", "hidden", "text"),
    [
        ("zero_stage", (3,), (0, 1, 2), '`"zero_optimization": {"stage": 3}`'),
        ("zero_stage", (1, 2), (0, 3), '`"zero_optimization": {"stage": 1}` or `2`'),
        ("gradient_accumulation_steps", (2, 4), (1,), '`"gradient_accumulation_steps"` above 1'),
        ("gradient_accumulation_steps", (4,), (1, 2), '`"gradient_accumulation_steps": 4`'),
        ("gradient_accumulation_dtype", ("fp32",), (None,), '`"data_types": {"grad_accum_dtype": "fp32"}`'),
        ("hpz_partition_size", (2,), (None,), '`"zero_optimization": {"zero_hpz_partition_size": 2}`'),
        ("zero_stage", (1, 2, 3), (0,), '`"zero_optimization": {"stage": 1}`, `2` or `3`'),
        ("dtype", ("bf16",), ("fp32",), '`"bf16": {"enabled": true}`'),
        ("dtype", ("fp16",), ("fp32",), '`"fp16": {"enabled": true}`'),
        ("offload_optimizer", (True,), (False,), '`"zero_optimization": {"offload_optimizer": {"device": "cpu"}}`'),
    ],
)
def test_a_condition_is_said_in_the_keys_that_configure_it(
    name: str, shown: Sequence[Any], hidden: Sequence[Any], text: str
) -> None:
    assert in_keys(BY_NAME[name], shown, hidden, {"zero_stage": 3}) == text


@pytest.mark.parametrize(
    ("name", "shown", "text"),
    [
        ("objective", ("two_backwards",), "two backwards in a micro-batch"),
        ("offload_optimizer", (False,), "no offload of the optimizer"),
        ("torch_autocast", (False,), "no torch_autocast"),
        ("world_size", (2,), "two ranks"),
        ("gradient_clipping", (1.0, None), '`"gradient_clipping": 1.0` or clipping not configured'),
        ("prefetch_bucket_size", (None,), "prefetch_bucket_size not configured"),
    ],
)
def test_what_no_key_configures_has_its_words(name: str, shown: Sequence[Any], text: str) -> None:
    assert in_keys(BY_NAME[name], shown, (), {"zero_stage": 3}) == text
