"""transformers' Trainer under ZeRO-3, with and without LoRA, as a program: on real ranks and in the simulation."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("deepspeed")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")

from dsregress.probe.border.wire import RunRecord  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

RELEASE, TRANSFORMERS = (
    tuple(int(part) for part in module.__version__.split(".")[:2]) for module in (torch, transformers)
)

TRAINER = """
import sys, torch, transformers
from peft import LoraConfig, get_peft_model
config = {
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0, "reduce_bucket_size": 20000},
    "bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
}
if "--schedule-of-deepspeed" in sys.argv:
    config["scheduler"] = {"type": "WarmupLR", "params": {
        "warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}}
arguments = transformers.TrainingArguments(
    output_dir="out", per_device_train_batch_size=1, bf16=True, max_steps=4, report_to="none", deepspeed=config,
    gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": "--non-reentrant" not in sys.argv})
sizes = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(vocab_size=96, **sizes), dtype=torch.bfloat16)
if "--lora" in sys.argv:
    model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear"))
rows = [{"input_ids": list(range(row, row + 16)), "labels": list(range(row, row + 16))} for row in range(64)]
transformers.Trainer(model=model, args=arguments, train_dataset=rows).train()
"""


@pytest.fixture
def program(folder: Path) -> Path:
    (folder / "train.py").write_text(TRAINER)
    return folder


def held(record: RunRecord) -> dict[str, int]:
    """Bytes at the end of each phase of a training step."""
    phases = passed(record).ranks[0].phases
    return {name: phases[name].device_retained_bytes for name in ("forward", "backward", "step")}


def test_lora_holds_less_than_full_training_in_sim_and_on_ranks(program: Path) -> None:
    line = "deepspeed --num_gpus 2 train.py --schedule-of-deepspeed"
    for device in ("sim", "cpu"):
        full, lora = held(ran(program, device, 2, line)), held(ran(program, device, 2, f"{line} --lora"))
        assert lora["step"] < full["step"]


@pytest.mark.parametrize(
    ("options", "signature"),
    [
        pytest.param(
            "",
            "ValueError: zip() argument 2 is longer",
            marks=pytest.mark.skipif(
                RELEASE < (2, 10) or TRANSFORMERS >= (5, 2),
                reason="torch before 2.10 does not count groups, and transformers since 5.2 leaves out empty ones",
            ),
            id="the group of parameters without decay is empty",
        ),
        pytest.param(
            "--schedule-of-deepspeed --non-reentrant",
            "CheckpointError: torch.utils.checkpoint: Recomputed values",
            id="frozen weights are recomputed as partitioned",
        ),
    ],
)
def test_lora_fails_in_sim_as_it_does_on_ranks(program: Path, options: str, signature: str) -> None:
    for device in ("sim", "cpu"):
        record = ran(program, device, 2, f"deepspeed --num_gpus 2 train.py --lora {options}")
        assert record.outcome == "failed"
        assert record.signature.startswith(signature)
