"""The reported workloads train like plain PyTorch, and `sim` holds what real tensors hold, to the byte."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("deepspeed")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from dsregress.probe.border.surroundings import ENVIRONMENT
from dsregress.probe.frameworks import integrations
from dsregress.probe.workloads.workload import Workload
from tests.probe import one_of_many

CELLS = [
    ("openrlhf_llama3_70b_actor", "base"),
    ("openrlhf_ppo_sharding", "zero_stage=2,gradient_accumulation_steps=4"),
    ("trl_qwen2_5_7b_lora", "base"),
    ("llamafactory_dpo_v100", "base"),
    ("llamafactory_dpo_v100", "roles=policy,lora_rank=8"),
    ("orz_qwen2_5_1_5b_ppo", "base"),
]


@pytest.fixture(scope="module", autouse=True)
def _imported_once() -> None:
    one_of_many.preload()


@pytest.mark.parametrize(("name", "variant"), CELLS)
def test_real_ranks_train_like_plain_pytorch(name: str, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    with tempfile.TemporaryDirectory() as folder:
        numerics: Any = one_of_many.on_real_ranks(name, variant, Path(folder)).numerics
    assert numerics.loss_error <= 1, numerics
    assert numerics.gradient_norm_error <= 1, numerics
    assert numerics.parameter_error <= 1, numerics


@pytest.mark.parametrize("objective", ["policy_gradient", "group_policy_gradient", "preference"])
def test_sim_holds_what_real_tensors_hold(objective: str) -> None:
    parameters = {
        **one_of_many.SMALL, "model": "llama-tiny", "objective": objective, "prompt_length": 24, "packed": False,
        "gradient_checkpointing": "reentrant" if objective == "preference" else "none",
        **({} if objective == "policy_gradient" else {"lora_rank": 4}),
    }  # fmt: skip
    real, simulated = one_of_many.train(parameters, "cpu"), one_of_many.train(parameters, "sim")
    for phase, expected in real.items():
        if phase != "init":
            for figure in ("peak_bytes", "flops", "collectives"):
                assert simulated[phase][figure] == expected[figure], (phase, figure)


HIDDEN = 64
AUTO = {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"}


def complete(integration: str) -> dict[str, Any]:
    settings = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0, "zero_optimization": AUTO}
    made = integrations.complete_settings(
        settings, integration, hidden_size=HIDDEN, world_size=2, work=Workload(gradient_clipping=1.0)
    )
    return dict(made["zero_optimization"])


@pytest.mark.parametrize("integration", ["transformers", "accelerate"])
def test_the_libraries_resolve_auto_from_the_hidden_size(integration: str) -> None:
    found = complete(integration)
    assert found["reduce_bucket_size"] == HIDDEN**2
    assert found["stage3_prefetch_bucket_size"] == int(0.9 * HIDDEN**2)


def test_nobody_resolves_auto_where_there_is_no_integration() -> None:
    assert complete("none") == AUTO


def test_an_integration_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no such integration: trl"):
        complete("trl")
