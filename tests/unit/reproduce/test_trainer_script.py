"""Scripts in which Trainer trains: short, of released packages alone, and refused where they would say less."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from dsregress.bisect.questions import parse_question
from dsregress.probe import scenario
from dsregress.reproduce.script import TRANSFORMERS, NoFragment, Script, Subject
from dsregress.reproduce.trainer_script import compose
from tests.paths import ROOT

MINIMAL = scenario.load(ROOT / "scenarios" / "minimal_trainer.py")
DEFAULTS = MINIMAL.resolve("base", "cpu")
BAD = {"torch": "2.13.0", "transformers": "4.48.3", "accelerate": "1.15.0", "peft": "0.21.2", "deepspeed": "0.16.8"}


def script(metric: str, **changes: Any) -> Script:
    return compose(
        Subject(
            parameters=MINIMAL.resolve("base", "cpu", changes),
            defaults=DEFAULTS,
            question=parse_question(metric),
            bad=BAD,
            good={**BAD, "transformers": "4.48.0"},
            package="transformers",
            model=TRANSFORMERS,
        )
    )


CHANGES = [
    {},
    {"gradient_accumulation_steps": 4, "zero_stage": 1, "dtype": "bf16"},
    {"zero_stage": 3, "world_size": 2, "gradient_checkpointing": "non_reentrant", "offload_optimizer": True},
    {"lora_rank": 8, "frozen": "layers.0", "gradient_clipping": 1.0, "overlap_comm": True},
]


@pytest.mark.parametrize("metric", ["gradient_norm_error", "loss_error", "outcome"])
@pytest.mark.parametrize("changes", CHANGES, ids=scenario.variant_id)
def test_a_script_is_python_without_the_harness(metric: str, changes: dict[str, Any]) -> None:
    found = script(metric, **changes)
    ast.parse(found.text)
    assert "harness" not in found.text
    assert max(len(line) for line in found.text.splitlines() if not line.startswith("# pip")) <= 125
    assert found.is_crash == (metric == "outcome")
    assert not found.needs_expected


def test_trainer_trains_the_samples_of_one_step_and_plain_pytorch_the_same() -> None:
    text = script("gradient_norm_error", gradient_accumulation_steps=4, zero_stage=1).text
    assert text.startswith(
        "# pip install torch==2.13.0 transformers==4.48.3 accelerate==1.15.0 deepspeed==0.16.8  # shows the fault"
    )
    assert '"gradient_accumulation_steps": "auto",' in text
    assert " gradient_accumulation_steps=4,\n" in text
    assert "samples = torch.randint(512, (8, 64))" in text
    assert "true_loss = plain(input_ids=samples, labels=samples).loss" in text


def test_a_script_of_a_crash_has_no_truth() -> None:
    assert "plain" not in script("outcome").text.replace("plain PyTorch", "")


@pytest.mark.parametrize("metric", ["parameter_error", "backward.device_retained_bytes"])
def test_a_metric_without_a_verdict_is_refused(metric: str) -> None:
    with pytest.raises(NoFragment, match=metric.rpartition(".")[2]):
        script(metric)


def test_what_the_template_does_not_say_is_refused() -> None:
    subject = Subject(
        parameters={**DEFAULTS, "attention": "eager"},
        defaults=DEFAULTS,
        question=parse_question("outcome"),
        bad=BAD,
        good=BAD,
    )
    with pytest.raises(NoFragment, match="attention=eager"):
        compose(subject)
