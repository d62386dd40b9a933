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


NO_TRACEBACK = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB.\n"


def known_of(text: str, folder: Path, *options: str, pins: str = "deepspeed==0.16.4\n") -> list[str]:
    (folder / "pins.txt").write_text(pins, encoding="utf-8")
    said = diagnosed(text, "2026-11-26.jsonl.gz", "-r", str(folder / "pins.txt"), *options)
    return [line.strip() for line in said.stdout.partition("known:")[2].splitlines()]


def test_stored_problems_are_looked_up_with_the_releases_of_the_job(tmp_path: Path) -> None:
    text = BACKWARD.removeprefix("deepspeed 0.16.4\n")
    assert "    the text does not say which deepspeed it is\n" in diagnosed(text, "2026-11-26.jsonl.gz").stdout
    (tmp_path / "pins.txt").write_text("deepspeed==0.16.9\n", encoding="utf-8")
    said = diagnosed(text, "2026-11-26.jsonl.gz", "-r", str(tmp_path / "pins.txt")).stdout
    assert "0.16.0 to 0.16.7" not in said
    assert said.endswith("dsregress regress --program 'YOUR LAUNCH LINE' --deepspeed 0.16.9\n")


def test_a_job_that_is_stated_says_what_its_memory_may_have_run_out_by(tmp_path: Path) -> None:
    facts = ("zero_stage=3", "gradient_checkpointing=non_reentrant", "dtype=bf16")
    stated = [word for fact in facts for word in ("--set", fact)]
    lines = known_of(NO_TRACEBACK, tmp_path, "--ranks", "32", *stated)
    title = "Gathered parameters stay after backward, with non-reentrant checkpointing under ZeRO-3"
    assert lines[1] == f"it may be DSR-2026-0020: {title}"
    assert lines[3] == "the job has all that it takes: ZeRO stage 3, several ranks, non-reentrant checkpointing"


def test_a_job_rules_out_what_its_memory_may_have_run_out_by(tmp_path: Path) -> None:
    assert known_of(NO_TRACEBACK, tmp_path, "--set", "zero_stage=2", "--set", "dtype=bf16") == []
    assert known_of(NO_TRACEBACK, tmp_path, "--ranks", "8", pins="deepspeed==0.16.9\n") == []


def test_an_error_that_the_job_rules_out_is_said_to_read_like_its_advisory(tmp_path: Path) -> None:
    (tmp_path / "pins.txt").write_text("deepspeed==0.19.8\ntorch==2.13.0\n", encoding="utf-8")
    crash = "ValueError: zip() argument 2 is longer than argument 1\n"
    frame = '  File "/v/site-packages/torch/optim/lr_scheduler.py", line 1, in f\n'
    text = f"Traceback (most recent call last):\n{frame}{crash}"
    stated = ("-r", str(tmp_path / "pins.txt"), "--set", "lora=no")
    said = diagnosed(text, "2026-11-26.jsonl.gz", *stated).stdout
    assert "it reads like DSR-2026-0015, which the releases or facts of the job rule out: LoRA with Trainer" in said


def test_the_releases_of_the_text_come_before_those_of_the_file(tmp_path: Path) -> None:
    lines = known_of(f"deepspeed==0.16.4\n{NO_TRACEBACK}", tmp_path, pins="deepspeed==0.16.9\n")
    assert lines[1].startswith("it may be DSR-2026-0020")


def test_backward_of_0_16_may_be_the_gathered_parameters_that_stay() -> None:
    said = diagnosed(BACKWARD, "2026-11-26.jsonl.gz")
    assert said.return_value == 0
    assert (
        said.stdout
        == """a GPU ran out of memory in backward (with deepspeed 0.16.4)

the message:
  448.00 MiB was requested
  no tensor that is known here has this size; --scenario names a workload with its sizes

the traceback:
  last in your code: OpenRLHF/train.py:128 in training_step
  first in a framework: deepspeed/runtime/engine.py:2053 in backward

known:
  it may be DSR-2026-0020: Gathered parameters stay after backward, with non-reentrant checkpointing under ZeRO-3
    in deepspeed 0.16.0 until 0.16.8
    if: ZeRO stage 3, several ranks, non-reentrant checkpointing
    remedy: use deepspeed 0.16.8; or use deepspeed 0.15.4; or train without gradient checkpointing

next:
  dsregress regress --program 'YOUR LAUNCH LINE' --deepspeed 0.16.8,0.16.4
"""
    )


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


def test_what_an_advisory_knows_is_answered_without_results(tmp_path: Path) -> None:
    said = diagnosed(GRADS.format("0.17.6"), str(tmp_path), "--json", "-")
    answer = json.loads(said.stdout)
    assert (said.return_value, answer["schema"], answer["problems"]) == (0, 2, [])
    (known,) = answer["known"]
    assert (known["id"], known["match"]) == ("DSR-2026-0017", "depends")
    assert known["releases"] == "deepspeed 0.16.5 until 0.19.3"


ZIP = (
    "torch==2.13.0\nTraceback (most recent call last):\n"
    '  File "/v/lib/python3.11/site-packages/torch/optim/lr_scheduler.py", line 296, in _update_lr\n'
    "ValueError: zip() argument 2 is longer than argument 1\n"
)  # hiyouga/LlamaFactory#10144


def test_a_crash_that_an_advisory_knows_has_its_id_releases_and_remedies() -> None:
    said = diagnosed(ZIP, "2026-11-21-pins.jsonl.gz")
    assert said.return_value == 0
    assert (
        said.stdout
        == """ValueError: zip() argument 2 is longer than argument 1 (with torch 2.13.0)

the traceback:
  first in a framework: torch/optim/lr_scheduler.py:296 in _update_lr

known:
  it may be DSR-2026-0015: LoRA with Trainer under DeepSpeed ends in torch's schedule: zip() argument 2 is longer
    in torch since 2.10.0 with transformers 4.46.3 until 5.2.0
    if: adapters, DeepSpeed, transformers' Trainer, no `scheduler` in the DeepSpeed configuration
    remedy: use torch 2.9.1; or put a `scheduler` into the DeepSpeed configuration; or use transformers 5.2.0

next:
  dsregress regress --program 'YOUR LAUNCH LINE' --torch 2.9.1,2.13.0
"""
    )


def test_a_release_that_an_advisory_calls_free_is_not_answered_by_it() -> None:
    assert diagnosed(ZIP.replace("2.13.0", "2.9.1"), "2026-11-21-pins.jsonl.gz").return_value == 4


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
    assert "regress --program 'YOUR LAUNCH LINE' --transformers 5.24.0,5.0.0" in said.stdout


def test_what_is_not_known_is_said_and_is_no_pass() -> None:
    said = diagnosed("Traceback (most recent call last):\nKeyError: 'labels'\n", "2026-11-21-pins.jsonl.gz")
    assert said.return_value == 4
    assert "not among the 1 failure stored here" in said.stdout


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read: No such file"),
        (b"\n", "is empty"),
        (b"\x00\xff hello", "contains no crash that is known here"),
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


@pytest.mark.parametrize(
    ("error", "file", "known"),
    [
        (
            "RuntimeError: Failed to import trl.trainer.grpo_trainer because of the following error (look up to see its "
            "traceback):\nNo module named 'weave'",
            "transformers/utils/import_utils.py",
            "DSR-2026-0092",
        ),
        (
            "TypeError: output tensor must have the same type as input tensor",
            "deepspeed/runtime/zero/partition_parameters.py",
            "DSR-2026-0043",
        ),
        (
            "ImportError: pyarrow requires NumPy 2.0 or newer; found 1.26.4",
            "llamafactory/data/loader.py",
            "DSR-2026-0081",
        ),
        ("AssertionError: OpenRLHF only supports vllm >= 0.8.2", "openrlhf/cli/train_ppo_ray.py", "DSR-2026-0086"),
    ],
)
def test_errors_in_the_words_of_what_raises_them_are_known(error: str, file: str, known: str, tmp_path: Path) -> None:
    text = f'Traceback (most recent call last):\n  File "/x/site-packages/{file}", line 9, in f\n    g()\n{error}\n'
    assert f"it is known as {known}: " in diagnosed(text, str(tmp_path)).stdout


def test_a_rank_that_a_signal_ended_says_so_in_place_of_its_launchers_frame(tmp_path: Path) -> None:
    text = (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + "=" * 60 + "\ntrain.py FAILED\n"
        "  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 1234)\n"
        "  traceback : Signal 9 (SIGKILL) received by PID 1234\n"
    )
    said = CliRunner().invoke(
        diagnose_command, ["-", "--results", str(tmp_path)], input=text, standalone_mode=False, catch_exceptions=False
    )
    assert said.stdout.splitlines()[:7] == [
        "a process was ended by SIGKILL",
        "",
        "the message:",
        "  the kernel ends a process so if the host's memory runs out: its log says so (dmesg)",
        "",
        "known:",
        "  no advisory knows it",
    ]


# an offloaded optimizer under ZeRO-2: DSR-2026-0023 takes host memory
OFFLOADED = ("zero_stage=2", "offload_optimizer=yes")


@pytest.mark.parametrize(
    "text",
    [
        "failed (exitcode: -9) local_rank: 3 (pid: 12347) of binary: python\n",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=12345.0. Some of the step tasks have been OOM Killed.\n",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
        "to allocate 8589934592 bytes. Error code 12 (Cannot allocate memory)\n",
    ],
)
def test_a_host_that_runs_out_of_memory_may_be_what_takes_host_memory_of_the_job(text: str, tmp_path: Path) -> None:
    stated = [word for fact in OFFLOADED for word in ("--set", fact)]
    lines = known_of(text, tmp_path, *stated, pins="deepspeed==0.18.9\n")
    assert lines[1].startswith("it may be DSR-2026-0023: ")
    assert "it may be" not in " ".join(lines[2:])
    assert not any("may be" in line for line in known_of(text, tmp_path, "--set", "zero_stage=2"))


def test_memory_of_the_card_and_of_the_host_are_not_taken_for_each_other(tmp_path: Path) -> None:
    killed = "failed (exitcode: -9) local_rank: 3 (pid: 12347) of binary: python\n"
    leaking = ("zero_stage=1", "dtype=bf16", "gradient_accumulation_dtype=fp32", "offload_optimizer=no")
    on_card, on_host = ([word for fact in facts for word in ("--set", fact)] for facts in (leaking, OFFLOADED))
    pins = "deepspeed==0.18.4\n"
    assert "DSR-2026-0025" in " ".join(known_of(NO_TRACEBACK, tmp_path, *on_card, pins=pins))
    assert "DSR-2026-0025" not in " ".join(known_of(killed, tmp_path, *on_card, pins=pins))
    assert "DSR-2026-0023" not in " ".join(known_of(NO_TRACEBACK, tmp_path, *on_host, pins=pins))


def test_a_hang_says_what_to_add(tmp_path: Path) -> None:
    text = (
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran\n"
    )
    said = diagnosed(text, str(tmp_path))
    assert said.return_value == 4
    assert said.stdout.startswith("ALLREDUCE did not return in 600.00 s: a watchdog ended the process\n")
    assert "if no rank has one: add the stack of each" in said.stdout
