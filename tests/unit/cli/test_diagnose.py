"""``diagnose`` on published results: real crashes, and texts that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dsregress.cli import run_command_line
from dsregress.cli.diagnose import diagnose_command
from tests.paths import ROOT

RESULTS = ROOT / "results"

# OpenRLHF/OpenRLHF#776 and deepspeedai/DeepSpeed#7116, shortened: a 70B actor on A800-80G in the backward of DeepSpeed 0.16
BACKWARD = """deepspeed 0.16.4
(ActorModelRayActor pid=67842) Traceback (most recent call last):
(ActorModelRayActor pid=67842)   File "/home/me/OpenRLHF/train.py", line 128, in training_step
(ActorModelRayActor pid=67842)     model.backward(loss)
(ActorModelRayActor pid=67842)   File "/v/lib/python3.10/site-packages/deepspeed/runtime/engine.py", line 2053, in backward
(ActorModelRayActor pid=67842)     self.optimizer.backward(loss, retain_graph=retain_graph)
(ActorModelRayActor pid=67842) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB.
"""

# deepspeedai/DeepSpeed#7615, shortened
GRADS = """deepspeed=={}
Traceback (most recent call last):
  File "/home/me/train.py", line 90, in <module>
    trainer.train()
  File "/v/lib/python3.11/site-packages/deepspeed/runtime/zero/parameter_offload.py", line 400, in forward
    module.ds_grads_remaining += 1
AttributeError: 'Linear' object has no attribute 'ds_grads_remaining'
"""


def diagnosed(text: str, bundle: str, *options: str) -> Result:
    arguments = ["-", "--results", str(RESULTS / bundle), *options]
    return CliRunner().invoke(diagnose_command, arguments, input=text, standalone_mode=False, catch_exceptions=False)


def test_backward_of_0_16_runs_out_of_memory() -> None:
    said = diagnosed(BACKWARD, "2026-11-26.jsonl.gz")
    assert said.return_value == 0
    assert (
        "it may be a problem of deepspeed 0.16.0 to 0.16.7: llama3_70b_zero3: backward holds 126 GiB more"
        in said.stdout
    )
    assert "since 0.16.0; not in 0.15.4; until 0.16.7; not in 0.16.8" in said.stdout
    assert "regress --deepspeed 0.16.8,0.16.4 --baseline 0.16.8 --scenario llama3_70b_zero3" in said.stdout


@pytest.mark.parametrize(
    "text",
    [
        BACKWARD.replace("0.16.4", "0.17.2"),  # newer than the first release without it
        BACKWARD.replace("engine.py", "zero/stage_1_and_2.py"),  # other code than that of the runs that have it
    ],
)
def test_a_job_that_cannot_have_a_problem_has_it_not(text: str) -> None:
    said = diagnosed(text, "2026-11-26.jsonl.gz")
    assert said.return_value == 4
    assert "not among the 1 failure stored here" in said.stdout


@pytest.mark.slow
def test_a_failure_of_the_sweep_with_its_releases() -> None:
    said = diagnosed(GRADS.format("0.17.6"), "2026-11-21-sweep.jsonl.gz", "--json", "-")
    answer = json.loads(said.stdout)
    (problem,) = answer["problems"]
    assert (problem["releases"], problem["kind"]) == ("0.16.5 to 0.19.2", "crash")
    assert problem["text"].endswith("Use 0.19.3.")
    assert (problem["is_same_place"], problem["has_version"]) == (True, True)


def test_a_failure_that_no_published_result_has_is_known_from_programs() -> None:
    text = (
        "torch==2.13.0\nTraceback (most recent call last):\n"
        '  File "/v/lib/python3.11/site-packages/torch/optim/lr_scheduler.py", line 296, in _update_lr\n'
        "ValueError: zip() argument 2 is longer than argument 1\n"
    )
    said = diagnosed(text, "2026-11-21-pins.jsonl.gz")  # hiyouga/LlamaFactory#10144
    assert said.return_value == 0
    assert "since torch 2.10; not with torch 2.9.1" in said.stdout
    assert diagnosed(text.replace("2.13.0", "2.9.1"), "2026-11-21-pins.jsonl.gz").return_value == 4


ENDS_IN_TRANSFORMERS = """transformers==5.0.0 deepspeed==0.18.5
Traceback (most recent call last):
  File "/home/me/train.py", line 9, in <module>
    model = AutoModel.from_pretrained("x")
  File "/v/lib/python3.11/site-packages/transformers/modeling_utils.py", line 400, in _init_weights
    module.weight[module.padding_idx].zero_()
IndexError: index 1 is out of bounds for dimension 0 with size 0
"""


def test_the_next_command_varies_the_package_in_which_the_traceback_ends() -> None:
    said = diagnosed(ENDS_IN_TRANSFORMERS, "2026-11-21-pins.jsonl.gz")
    assert said.return_value == 4
    assert "regress --program 'YOUR LAUNCH LINE' --transformers 4.57.6,5.0.0" in said.stdout


def test_what_is_not_known_is_said_and_is_no_pass() -> None:
    said = diagnosed("Traceback (most recent call last):\nKeyError: 'labels'\n", "2026-11-21-pins.jsonl.gz")
    assert said.return_value == 4
    assert "not among the 1 failure stored here" in said.stdout


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: No such file"),
        (b"\n", "is empty"),
        (b"\x00\xff hello", "contains no out-of-memory message and no Python error"),
    ],
)
def test_bad_input_is_one_line(
    content: bytes | None, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "crash.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        run_command_line(["diagnose", str(file)])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1
