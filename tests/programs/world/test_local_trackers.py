"""A tracker that writes files is at work while a program runs, and one that sends is not."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.programs.cells import ran

pytestmark = pytest.mark.usefixtures("surroundings")

#: A tiny package in the place of TensorBoard, which is not among the packages of every stack.
WRITER = """
class SummaryWriter:
    def __init__(self, log_dir=None, **options):
        raise RuntimeError("the writer of this release does not open")
"""

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


@pytest.mark.parametrize(("report_to", "fails"), [("tensorboard", True), ("wandb", False), ("none", False)])
def test_the_callback_of_a_tracker_that_writes_files_is_run(folder: Path, report_to: str, *, fails: bool) -> None:
    (folder / "tensorboardX").mkdir()
    (folder / "tensorboardX" / "__init__.py").write_text(WRITER)
    (folder / "train.py").write_text(TRAINING.replace("REPORT", repr(report_to)))
    record = ran(folder, "cpu", 1, "python train.py")
    assert (record.outcome == "failed") is fails
    assert ("does not open" in record.signature) is fails
