"""A program that is run by hand takes the parameters that its options would set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from dsregress.programs.__main__ import given_parameters
from tests.paths import SOURCE
from vgpu.card_catalogue import UnknownCard


def test_a_gpu_brings_the_facts_of_its_card_and_steps_are_those_before_the_measured_one() -> None:
    given = given_parameters("train.py", ["gpu=A100-80G", "steps=2", "rank=3", "tiny=true"])
    card = given.pop("card")
    assert given == {"gpu": "A100-80G", "warmup_steps": 2, "rank": 3, "tiny": True}
    assert (card["name"], card["compute_capability"]) == ("NVIDIA A100-SXM4-80GB", (8, 0))


def test_a_line_has_parameters_of_its_own_and_no_others() -> None:
    assert given_parameters("train.py --batch {batch}", ["batch=4"]) == {"batch": 4}
    with pytest.raises(ValueError, match="a program has no 'batch'"):
        given_parameters("train.py", ["batch=4"])
    with pytest.raises(UnknownCard, match="no such card: A10000"):
        given_parameters("train.py", ["gpu=A10000"])


TRAIN = """
import torch
model = torch.nn.Linear(8, 8, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
while True:
    step += 1
    print("step", step, torch.cuda.get_device_name(), torch.cuda.get_device_capability(), flush=True)
    model(torch.ones(1, 8, device="cuda")).sum().backward()
    optimizer.step()
"""


def run_by_hand(folder: Path, *parameters: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dsregress.programs", "sim", "1", "python train.py", *parameters]
    # A measured environment has no dsregress: pytest alone finds it, by the path in its own configuration.
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_program_finds_the_card_and_takes_the_steps(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = run_by_hand(tmp_path, "gpu=A100-80G", "steps=2")
    assert done.returncode == 0, done.stdout + done.stderr
    seen = [line for line in done.stdout.splitlines() if line.startswith("step")]
    assert seen == [f"step {number} NVIDIA A100-SXM4-80GB (8, 0)" for number in (1, 2, 3)]
    refused = run_by_hand(tmp_path, "gpu=A100-80G", "steps=2", "step=2")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1].startswith("a program has no 'step' (known: steps, ")
