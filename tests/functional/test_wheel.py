"""A user has the wheel, a training program and a folder of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import ending
from tests.builders import wheels
from tests.functional.releases import BEFORE, ENVIRONMENTS, FAULTY, LIMIT_S

TRAIN = """
import deepspeed
import torch
from torch import nn

config = {
    "train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": 3},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
}
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for _ in range(100):
    loss = engine(torch.randn(4, 64, device=engine.device)).square().mean()
    engine.backward(loss)
    engine.step()
"""


def test_a_program_is_measured_in_an_empty_folder(tmp_path: Path) -> None:
    wheel = wheels.build_distribution("wheel", tmp_path / "dist")
    programs = wheels.install_wheel(wheel, tmp_path / "venv")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "DSREGRESS_RESULTS")}
    environment["DSREGRESS_ENVIRONMENTS"] = ENVIRONMENTS
    measured = ending.run(
        [
            *(str(programs / "dsregress"), "regress", "--program", "torchrun --nproc-per-node 2 train.py"),
            *("--deepspeed", f"{BEFORE},{FAULTY}", "--device", "cpu", "--device", "sim", "--rounds", "2"),
        ],
        cwd=folder,
        env=environment,
        limit_s=LIMIT_S,
    )
    if measured.returncode == 3 and "no package index can be reached" in measured.stderr:
        pytest.skip(f"no package index can be reached: {measured.stderr.strip()}")
    assert measured.returncode == 0, measured.stdout + measured.stderr
    assert "4 of 4 runs passed" in " ".join(measured.stdout.split())
    reported = ending.run([str(programs / "dsregress"), "show"], cwd=folder, env=environment, limit_s=LIMIT_S)
    assert reported.stdout.count("  passed\n") == 4, reported.stdout
    assert sorted(file.name for file in folder.iterdir()) == ["results", "train.py"]
