"""What a changed setting can move, as far as the table knows it."""

from __future__ import annotations

from typing import Any

import pytest

from dsregress.compare.metrics import BY_NAME
from dsregress.compare.setting_effects import AFTER_UPDATE, must_reach, reached_families, read_effects
from dsregress.model import Finding

OFFLOAD = "deepspeed.zero_config.offload_optimizer"
TIME = "step time"
MEMORY, TRAINING, SAVED = (
    BY_NAME[name].family for name in ("device_peak_bytes", "training_difference", "saved_difference")
)


@pytest.mark.parametrize(
    ("key", "value", "baseline", "family", "switches"),
    [
        ("trainer.vllm_server_timeout", 240.0, 120.0, MEMORY, {}),
        ("trainer.use_liger_loss", None, False, TRAINING, {}),
        ("trainer.warmup_ratio", None, 0.0, TRAINING, {}),
        ("trainer.warmup_steps", None, 0, MEMORY, {}),
        ("trainer.use_cache", False, None, SAVED, {}),
        ("trainer.dataset_batch_size", None, 1000, MEMORY, {}),
        ("trainer.max_seq_length", None, 1024, TRAINING, {}),
        ("trainer.num_of_sequences", None, 1024, MEMORY, {}),
        ("trainer.warmup_ratio", 0.1, 0.0, SAVED, {}),
        ("trainer.logging_steps", 10, 500, TRAINING, {}),
        ("trainer.optim", "adamw_torch_fused", "adamw_torch", TRAINING, {}),
        ("optimizer.eps", 1e-6, 1e-8, TRAINING, {}),
        ("trainer.packing_strategy", "ffd", "bfd", TRAINING, {"trainer.packing": False}),
        ("trainer.packing_strategy", "ffd", "bfd", TRAINING, {}),
        ("deepspeed.zero_config.overlap_comm", True, False, TRAINING, {"deepspeed.zero_config.stage": 0}),
        (f"{OFFLOAD}.pin_memory", True, False, MEMORY, {f"{OFFLOAD}.device": "cpu"}),
        (f"{OFFLOAD}.pin_memory", True, False, TIME, {f"{OFFLOAD}.device": "none", "deepspeed.zero_config.stage": 3}),
    ],
)
def test_a_setting_that_is_off_idle_or_of_another_kind_moves_nothing(
    key: str, value: Any, baseline: Any, family: str, switches: dict[str, Any]
) -> None:
    assert family not in reached_families(key, value, baseline, {key: value, **switches})


@pytest.mark.parametrize(
    ("key", "value", "baseline", "family", "switches"),
    [
        ("trainer.max_length", 1024, 512, MEMORY, {}),
        ("trainer.average_tokens_across_devices", True, False, TRAINING, {}),
        ("trainer.packing_strategy", "ffd", "bfd", TRAINING, {"trainer.packing": True}),
        ("critic: deepspeed.zero_config.overlap_comm", True, False, MEMORY, {"critic: deepspeed.zero_config.stage": 2}),
        ("trainer.save_only_model", True, False, SAVED, {}),
        ("optimizer.eps", 1e-6, 1e-8, AFTER_UPDATE, {}),
        ("trainer.optim", "adamw_torch_fused", "adamw_torch", AFTER_UPDATE, {}),
    ],
)
def test_a_setting_in_use_moves_what_the_table_says(
    key: str, value: Any, baseline: Any, family: str, switches: dict[str, Any]
) -> None:
    assert family in reached_families(key, value, baseline, {key: value, **switches})


def of(metric: str, *, phase: str = "backward", before_update: bool = False) -> Finding:
    return Finding(
        stack="0.15.0",
        scenario="train",
        variant="base",
        device="cpu",
        metric=metric,
        phase=phase,
        kind="regression",
        value=2.0,
        baseline_value=1.0,
        ratio=2.0,
        unit="",
        significant=True,
        relevant=True,
        sentence="it differs",
        before_update=before_update,
    )


@pytest.mark.parametrize(
    ("key", "value", "baseline", "reached", "not_reached"),
    [
        ("trainer.learning_rate", 1e-3, 1e-4, ("training_difference",), ("weight_precision", "fed_difference")),
        (
            "model.dtype",
            "bfloat16",
            "float32",
            ("weight_precision",),
            ("fed_difference", "trained_weights", "saved_difference"),
        ),
        (
            "trainer.truncation_mode",
            "keep_start",
            "keep_end",
            ("fed_difference",),
            ("training_difference", "logged_difference"),
        ),
        ("trainer.max_length", 1024, 512, ("fed_difference",), ("start_weights", "trained_weights")),
        ("trainer.max_grad_norm", 1.0, 0.5, (), ("fed_difference", "start_weights", "trained_weights")),
        ("model.tie_word_embeddings", True, False, ("trained_weights", "saved_difference"), ("fed_difference",)),
        ("model.use_cache", True, False, ("host_calls",), ("collective_bytes", "saved_difference")),
    ],
)
def test_a_setting_has_to_reach_the_very_place_in_the_chain(
    key: str, value: Any, baseline: Any, reached: tuple[str, ...], not_reached: tuple[str, ...]
) -> None:
    families = reached_families(key, value, baseline, {key: value})
    assert [name for name in (*reached, *not_reached) if must_reach([of(name)]) in families] == list(reached)


def test_of_several_findings_the_first_in_the_chain_needs_the_reason() -> None:
    precision, loss, memory = of("weight_precision"), of("training_difference"), of("device_peak_bytes")
    assert must_reach([memory, loss, precision]) == must_reach([precision])
    assert must_reach([memory, loss]) == AFTER_UPDATE
    assert must_reach([memory, of("training_difference", before_update=True)]) == TRAINING


def test_what_saving_costs_is_reached_by_what_is_saved() -> None:
    assert must_reach([of("collective_bytes", phase="save")]) == SAVED
    assert must_reach([of("collective_bytes")]) == BY_NAME["collective_bytes"].family


def test_a_table_that_names_an_unknown_family_or_word_is_refused() -> None:
    table = '[families]\n{family}\n[[setting]]\nkeys = ["a"]\nreaches = ["{word}"]\n'
    refusal = "neither a family of metrics nor a word for some: {}$"
    assert read_effects(table.format(family='saved = ["checkpoint"]', word="saved").encode()).setting
    with pytest.raises(ValueError, match=refusal.format("weather")):
        read_effects(table.format(family='saved = ["weather"]', word="saved").encode())
    with pytest.raises(ValueError, match=refusal.format("sky")):
        read_effects(table.format(family='saved = ["checkpoint"]', word="sky").encode())
