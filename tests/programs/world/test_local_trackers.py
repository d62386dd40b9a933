"""A tracker that writes files is at work while a program runs, and one that only sends is not."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.programs.cells import ran

pytestmark = pytest.mark.usefixtures("surroundings")

#: Tiny packages in the place of TensorBoard and wandb, which are not among the packages of every stack.
WRITERS = {
    "tensorboardX/__init__.py": """
class SummaryWriter:
    def __init__(self, log_dir=None, **options):
        raise RuntimeError("the writer of this release does not open")
""",
    "wandb/sdk/lib/config_util.py": "class ConfigError(Exception): ...",
    "wandb/__init__.py": """
import os
run = None
def init(**options):
    raise RuntimeError(f"the {os.environ['WANDB_MODE']} run of this release does not open")
""",
}

TRAINING = """
import torch
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 1)
    def forward(self, x):
        return {"loss": self.lin(x).square().mean()}

rows = [{"x": torch.ones(8)} for _ in range(64)]
args = TrainingArguments("out", report_to=REPORT, max_steps=4, save_strategy="no", remove_unused_columns=False)
Trainer(Model(), args, train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("report_to", "fails"),
    [
        ("tensorboard", "the writer of this release does not open"),
        (["wandb"], "the offline run of this release does not open"),
        ("mlflow", ""),  # not installed
        ("comet_ml", ""),
        ("none", ""),
    ],
)
def test_the_callback_of_a_tracker_that_writes_files_is_run(folder: Path, report_to: object, fails: str) -> None:
    for name, source in WRITERS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    (folder / "train.py").write_text(TRAINING.replace("REPORT", repr(report_to)))
    record = ran(folder, "cpu", 1, "python train.py")
    assert (record.outcome == "failed") is bool(fails)
    assert fails in record.signature
