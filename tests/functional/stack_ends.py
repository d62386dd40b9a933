"""The harness with the oldest and the newest torch and transformers that it supports, in each pair: ``nox -s ends``.

The environments take 2 GiB with CPU builds of torch and 15 GiB with CUDA builds, so ``nox -s tests`` leaves them out and
the nightly workflow runs them.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.functional.releases import Regress

TORCH = OLDEST_TORCH, NEWEST_TORCH = "2.5.1", "2.15.0"
TRANSFORMERS = OLDEST_TRANSFORMERS, NEWEST_TRANSFORMERS = "4.45.2", "5.24.0"
PAIRS = tuple(itertools.product(TORCH, TRANSFORMERS))

#: A release of DeepSpeed that runs with all of them.
DEEPSPEED = "0.19.8"

#: A pair that does not go together -> the reason, and the torch that is used instead.
APART = {
    (OLDEST_TORCH, NEWEST_TRANSFORMERS): (
        f"ImportError: transformers {NEWEST_TRANSFORMERS} refuses torch {OLDEST_TORCH}: it requires a newer one",
        "2.6.0",
    )
}

TRAIN = """
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

name = "Qwen/Qwen2.5-0.5B"
arguments = TrainingArguments(
    output_dir="out", deepspeed="ds.json", bf16=True, per_device_train_batch_size=1, max_steps=100, logging_steps=1
)
ids = AutoTokenizer.from_pretrained(name)("What a program trains is its own.")["input_ids"]
data = [{"input_ids": ids, "labels": ids} for _ in range(1000)]
Trainer(model=AutoModelForCausalLM.from_pretrained(name), args=arguments, train_dataset=data).train()
"""

CONFIG = """{
    "zero_optimization": {"stage": 3},
    "bf16": {"enabled": "auto"},
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto"
}"""

SCENARIO = ("--scenario", "llama_zero3_backward", "--variant", "base")
PROGRAM = ("--program", "accelerate launch --num_processes 2 train.py", "--tiny")


def measured(regress: Regress, torch: str, transformers: str, *workload: str, **run: Any) -> dict[str, str]:
    """The device modes -> how the workload ended in them."""
    report = regress(
        *("--torch", torch, "--transformers", transformers, "--deepspeed", DEEPSPEED, "--baseline", DEEPSPEED),
        *(*workload, "--device", "cpu", "--device", "sim", "--rounds", "0"),
        **run,
    )
    return {
        cell["device"]: ": ".join(filter(None, (cell["outcome"], cell["stage"], cell["signature"])))
        for cell in report["cells"]
    }


@pytest.mark.parametrize(
    ("torch", "transformers"), PAIRS, ids=[f"torch{torch}-transformers{transformers}" for torch, transformers in PAIRS]
)
def test_a_scenario_and_a_program_run_with_a_pair_of_ends(
    torch: str, transformers: str, regress: Regress, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if (torch, transformers) in APART:
        reason, instead = APART[torch, transformers]
        refused = f"failed: import: {reason}"
        assert measured(regress, torch, transformers, *SCENARIO) == {"cpu": refused, "sim": refused}
        with capsys.disabled():
            sys.stdout.write(f"\ntorch {instead} instead of {torch}, as {reason}\n")
        torch = instead
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "ds.json").write_text(CONFIG)
    passed = {"cpu": "passed", "sim": "passed"}
    assert measured(regress, torch, transformers, *SCENARIO) == passed
    assert measured(regress, torch, transformers, *PROGRAM, cwd=tmp_path) == passed
