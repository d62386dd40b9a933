"""A program that nobody wrote for us, on real releases: transformers' Trainer as its users call it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.releases import AFTER, BEFORE, FAULTY, RELEASES, Regress, cells

TRAIN = """
import argparse

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--model")
model_name = parser.parse_args().model
arguments = TrainingArguments(
    output_dir="out",
    deepspeed="ds.json",
    bf16=True,
    per_device_train_batch_size=1,
    gradient_accumulation_steps=2,
    gradient_checkpointing=True,
    gradient_checkpointing_kwargs={"use_reentrant": False},
    max_steps=100,
    logging_steps=1,
)
tokenizer = AutoTokenizer.from_pretrained(model_name)
ids = tokenizer("What a program trains is its own.")["input_ids"]
data = [{"input_ids": ids, "labels": ids} for _ in range(1000)]
model = AutoModelForCausalLM.from_pretrained(model_name)
Trainer(model=model, args=arguments, train_dataset=data).train()
"""

CONFIG = """{
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    "bf16": {"enabled": "auto"},
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto"
}"""

LOOP = """
import deepspeed
import torch
from transformers import AutoModelForCausalLM

config = {
    "zero_optimization": {"stage": 2},
    "bf16": {"enabled": True},
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 4,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
torch.manual_seed(engine.global_rank)
while True:
    ids = torch.randint(0, 90, (1, 16), device=engine.device)
    engine.backward(engine(input_ids=ids, labels=ids).loss)
    engine.step()
"""

LINE = "accelerate launch --num_processes 2 train.py --model Qwen/Qwen2.5-7B"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("program")
    (made / "train.py").write_text(TRAIN)
    (made / "ds.json").write_text(CONFIG)
    return made


def held(report: dict[str, Any]) -> dict[str, int]:
    return {release: cell["metrics"]["backward.device_retained_bytes"] for (release, _), cell in cells(report).items()}


def test_a_7b_program_shows_in_sim_what_the_faulty_release_holds_and_the_others_do_not(
    regress: Regress, folder: Path
) -> None:
    releases = ",".join(RELEASES)
    report = regress("--program", LINE, "--ranks", "8", "--deepspeed", releases, "--baseline", BEFORE, cwd=folder)
    found = held(report)
    assert found[FAULTY] - found[BEFORE] > 10e9
    assert found[AFTER] <= found[BEFORE]
    assert report["exit_code_seen"] == 1
    assert sorted(file.name for file in folder.iterdir()) == ["ds.json", "train.py"]


def test_shrunk_the_same_program_trains_on_real_ranks(regress: Regress, folder: Path) -> None:
    report = regress(
        *("--program", LINE, "--tiny", "--device", "cpu", "--rounds", "2"),
        *("--deepspeed", f"{BEFORE},{FAULTY}", "--baseline", BEFORE),
        cwd=folder,
    )
    assert {cell["outcome"] for cell in report["cells"]} == {"passed"}
    found = held(report)
    assert found[FAULTY] > found[BEFORE]
    assert "training_difference" not in {finding["metric"] for finding in report["findings"]}


@pytest.mark.nightly
def test_gradients_that_are_divided_twice_are_wrong_without_a_baseline(regress: Regress, tmp_path: Path) -> None:
    """DeepSpeed 0.18.3 to 0.19.5 divide them again by the micro-batches, of a model that returns several tensors."""
    (tmp_path / "train.py").write_text(LOOP)
    report = regress(
        *("--program", "deepspeed --num_gpus 2 train.py", "--tiny", "--device", "cpu", "--rounds", "0"),
        *("--deepspeed", f"{AFTER},0.18.9", "--baseline", AFTER),
        cwd=tmp_path,
    )
    errors = {release: cell["metrics"]["gradient_norm_error"] for (release, _), cell in cells(report).items()}
    assert errors[AFTER] <= 1 < errors["0.18.9"]
    assert ("gradient_norm_error", "wrong") in {(finding["metric"], finding["kind"]) for finding in report["findings"]}


def test_a_program_has_a_name_by_which_it_is_explained(
    harness: Callable[..., Any], regress: Regress, folder: Path
) -> None:
    report = regress("--program", LINE, "--tiny", "--deepspeed", FAULTY, "--baseline", FAULTY, cwd=folder)
    (cell,) = report["cells"]
    done = harness("explain", f"{FAULTY}/{cell['scenario']}/base/sim", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "gathered parameters" in done.stdout
    assert "train.py" in done.stdout


def test_an_audit_reads_from_a_run_of_the_program_what_no_file_states(
    harness: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    pins = tmp_path / "requirements.txt"
    pins.write_text(f"deepspeed=={FAULTY}\n")

    def facts(*options: str) -> dict[str, tuple[Any, str]]:
        done = harness("audit", "-r", str(pins), "--program", LINE, "--json", "-", *options, cwd=folder)
        assert done.returncode in (0, 1), done.stderr
        return {fact["name"]: (fact["value"], fact["source"]) for fact in json.loads(done.stdout)["job"]["facts"]}

    assert not facts().keys() & {"zero_stage", "gradient_checkpointing"}
    observed = facts("--observe")
    assert observed["zero_stage"] == (3, "--observe: zero_optimization.stage")
    assert observed["gradient_accumulation_steps"] == (2, "--observe: gradient_accumulation_steps")
    assert observed["gradient_checkpointing"] == ("non_reentrant", "--observe: gradient_checkpointing_kwargs")
    assert observed["lora"] == (False, "--observe: no adapter is trained")
    assert observed["overlap_comm"][0] is None


RESUMING = """
import os
import torch

model = torch.nn.Linear(8, 1, bias=False)
torch.nn.init.constant_(model.weight, 0.5)
if os.path.exists("last.pt"):
    model.load_state_dict(torch.load("last.pt"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.ones(1, 8)).square().sum().backward()
    optimizer.step()
    torch.save(model.state_dict(), "last.pt")
    torch.save(model.state_dict(), "outputs/last.pt")
"""


def test_a_program_that_resumes_and_saves_over_its_checkpoint_trains_the_same_in_each_release_and_leaves_it(
    regress: Regress, tmp_path: Path
) -> None:
    mine, scratch = tmp_path / "mine", tmp_path / "scratch"
    mine.mkdir()
    scratch.mkdir()
    (mine / "train.py").write_text(RESUMING)
    (mine / "outputs").symlink_to(scratch)
    (scratch / "last.pt").write_bytes(b"a checkpoint of the user's")
    report = regress(
        *("--program", "python train.py", "--device", "cpu", "--rounds", "0"),
        *("--deepspeed", f"{BEFORE},{FAULTY},{AFTER}", "--baseline", BEFORE),
        cwd=mine,
    )
    assert report["exit_code_seen"] == 4  # it does not use DeepSpeed, and says nothing about its releases
    assert {cell["outcome"] for cell in report["cells"]} == {"passed"}
    assert "training_difference" not in {finding["metric"] for finding in report["findings"]}
    assert (scratch / "last.pt").read_bytes() == b"a checkpoint of the user's"
    assert sorted(file.name for file in mine.iterdir()) == ["outputs", "train.py"]
    assert any(str(scratch / "last.pt") in note for note in report["notes"])
