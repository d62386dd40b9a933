"""What a trainer shows is recorded, until the program has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dsregress.programs.watch.logged_numbers import LoggedNumbers  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402


class Trainer:
    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:
        self.logs = logs


def test_losses_and_norms_are_kept_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = type("module", (), {"Trainer": Trainer})
    monkeypatch.setitem(__import__("sys").modules, "transformers.trainer", module)
    logged, trainer = LoggedNumbers(), Trainer()
    logged.watch_imported()
    logged.watch_imported()
    trainer.log({"loss": 2.0, "grad_norm": torch.tensor(3.0), "epoch": 1.0, "learning_rate": 1e-4}, None)
    trainer.log(logs={"eval_loss": float("nan"), "eval_runtime": 3.0})
    trainer.log({"eval_accuracy": 0.5})
    logged.end()
    trainer.log({"loss": 9.0})
    assert logged.shown == [{"loss": 2.0, "grad_norm": 3.0}, {"eval_loss": None}]
    assert trainer.logs == {"loss": 9.0}


TRAINER = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
sizes = dict(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
rows = [dict(input_ids=torch.arange(8), labels=torch.arange(8)) for _ in range(16)]
args = TrainingArguments(
    "out", max_steps=4, logging_steps=2, per_device_train_batch_size=1, report_to="none", save_strategy="no")
trainer = Trainer(model=LlamaForCausalLM(LlamaConfig(**sizes)), args=args, train_dataset=rows, eval_dataset=rows[:2])
trainer.train()
trainer.evaluate()
"""


@pytest.mark.usefixtures("surroundings")
def test_what_trainer_logs_until_its_end_is_kept(folder: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("deepspeed")
    (folder / "train.py").write_text(TRAINER)
    (rank,) = passed(ran(folder, "cpu", 1, "python train.py")).ranks
    assert rank.ended
    assert [sorted(shown) for shown in rank.logged] == [
        ["grad_norm", "loss"],
        ["grad_norm", "loss"],
        ["train_loss"],
        ["eval_loss"],
    ]
