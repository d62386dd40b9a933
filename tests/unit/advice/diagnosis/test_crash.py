"""Tracebacks as people posted them: the error, the phase, the frames, and the versions."""

from __future__ import annotations

import pytest

from dsregress.advice.diagnosis import crash as crashes
from dsregress.advice.diagnosis.crash import Crash

# hiyouga/LlamaFactory#10141 and #10144
ZIP = """deepspeed==0.14.5
torch==2.10.0
[rank1]: Traceback (most recent call last):
[rank1]:   File "/nas/xyq/LlamaFactory/src/llamafactory/launcher.py", line 185, in <module>
[rank1]:     run_exp()
[rank1]:   File "/nas/miniconda3/envs/x/lib/python3.11/site-packages/transformers/trainer.py", line 2325, in train
[rank1]:     return inner_training_loop(
[rank1]:   File "/nas/miniconda3/envs/x/lib/python3.11/site-packages/torch/optim/lr_scheduler.py", line 296, in _update_lr
[rank1]:     for param_group, lr in zip(self.optimizer.param_groups, values, strict=True):
[rank1]: ValueError: zip() argument 2 is longer than argument 1
[rank5]: Traceback (most recent call last):
[rank5]:   File "/nas/xyq/LlamaFactory/src/llamafactory/launcher.py", line 185, in <module>
"""


def read(text: str) -> Crash:
    found = crashes.read_crash(text)
    assert found is not None
    return found


def test_the_ranks_of_a_log_are_distinguished() -> None:
    found = read(ZIP)
    assert (found.error, found.message) == ("ValueError", "zip() argument 2 is longer than argument 1")
    assert [frame.text for frame in (found.last_of_user, found.first_of_framework, found.frames[-1]) if frame] == [
        "llamafactory/launcher.py:185 in <module>",
        "transformers/trainer.py:2325 in train",
        "torch/optim/lr_scheduler.py:296 in _update_lr",
    ]
    assert found.versions == {"deepspeed": "0.14.5", "torch": "2.10.0"}


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("- PyTorch version: 2.6.0+cu124 (GPU)\n- DeepSpeed version: 0.16.7", {"torch": "2.6.0", "deepspeed": "0.16.7"}),
        ("trl:0.12.0.dev0\naccelerate 0.34.2\ndeepspeed 0.17.1",
         {"trl": "0.12.0.dev0", "accelerate": "0.34.2", "deepspeed": "0.17.1"}),  # huggingface/trl#3664
        ("lib/python3.10/site-packages/deepspeed-0.16.4.dist-info", {"deepspeed": "0.16.4"}),
        ("we use deepspeed and 0.16.4 of something; torch_xla==2.1.0", {}),
    ],
)  # fmt: skip
def test_versions_that_a_text_mentions(text: str, versions: dict[str, str]) -> None:
    assert read(f"{text}\nKeyError: 'x'").versions == versions


@pytest.mark.parametrize(
    ("functions", "phase"),
    [
        (["main", "train", "training_step", "forward", "cross_entropy"], "forward"),
        (
            ["main", "backward", "run_backward", "unpack_hook", "forward"],
            "backward",
        ),  # a checkpoint runs its forward again
        (["main", "train", "step", "_take_model_step", "step"], "step"),
        (["main", "generate", "_sample", "forward"], "generate"),
        (["main", "from_pretrained", "_load_state_dict_into_meta_model"], "load"),
        (["main", "tokenize"], ""),
    ],
)
def test_the_phase_is_that_of_the_frames(functions: list[str], phase: str) -> None:
    frames = "".join(f'  File "/v/lib/python3.11/site-packages/x/y.py", line 1, in {name}\n' for name in functions)
    assert read(f"Traceback (most recent call last):\n{frames}RuntimeError: CUDA error: out of memory\n").phase == phase


def test_what_only_echoes_another_error_is_not_it() -> None:
    found = read(
        "Traceback (most recent call last):\n"
        "  File \"/home/me/a.py\", line 1, in f\n    raise KeyError('x')\nKeyError: 'x'\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED\n"
        "RuntimeError: Connection closed by peer [10.0.0.1]:4711\n"
    )
    assert found.error == "KeyError"


def test_options_that_argparse_refuses_are_the_error_not_the_launchers_report() -> None:
    found = read(
        "usage: train.py [-h] [--deepspeed DEEPSPEED]\n"
        "train.py: error: argument --deepspeed: invalid dict value: 'zero3.json'\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    )
    assert (found.error, found.message) == (
        "ArgumentError",
        "argument --deepspeed: invalid dict value: 'zero3.json'",
    )


def test_an_echo_alone_is_still_an_error() -> None:
    assert (
        read("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1275\n").error
        == "DistBackendError"
    )


def test_a_message_that_was_wrapped_by_hand_is_joined() -> None:
    # huggingface/transformers#47254
    found = read(
        "torch.utils.checkpoint.CheckpointError: Recomputed values for the following tensors\n"
        "have different metadata than during the forward pass.\n"
    )
    assert found.error == "CheckpointError"
    assert found.message.startswith("Recomputed values for the following tensors have different metadata than during")


@pytest.mark.parametrize("text", ["", "hello", "try:\n    f()\nexcept ValueError:\n    pass\n"])
def test_a_text_without_a_crash(text: str) -> None:
    assert crashes.read_crash(text) is None


@pytest.mark.parametrize(
    ("files", "package"),
    [
        (["train.py", "transformers/trainer.py", "transformers/modeling_utils.py"], "transformers"),
        (["train.py", "transformers/trainer.py", "peft/peft_model.py", "torch/nn/modules/module.py"], "peft"),
        (["train.py", "deepspeed/runtime/engine.py", "numpy/core.py"], "deepspeed"),
        (["train.py", "torch/nn/modules/module.py"], "torch"),
        (["train.py", "trl/trainer/sft_trainer.py", "hook.py"], ""),  # it ended in the user's own code
        (["train.py"], ""),
    ],
)
def test_the_package_at_fault_is_the_one_in_which_the_traceback_ends(files: list[str], package: str) -> None:
    paths = [f"/v/lib/python3.11/site-packages/{file}" if "/" in file else f"/home/me/{file}" for file in files]
    frames = "".join(f'  File "{path}", line 1, in f\n    x()\n' for path in paths)
    found = crashes.read_crash(f"Traceback (most recent call last):\n{frames}KeyError: 'x'\n")
    assert found is not None
    assert found.package == package


def test_an_exception_of_no_class_of_its_own_is_an_error() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/x/site-packages/deepspeed/runtime/fp16/loss_scaler.py", line 175, in update_scale',
        "    raise Exception(",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
    ]
    found = crashes.read_crash("\n".join(lines))
    assert found is not None
    assert (found.error, found.message.partition(" - ")[0]) == ("Exception", "Current loss scale already at minimum")


def test_a_release_that_a_message_tells_the_history_of_is_not_the_installed_one() -> None:
    crash = read(
        "torch==2.8.0\nTraceback (most recent call last):\n"
        "_pickle.UnpicklingError: Weights only load failed. In PyTorch 2.6, we changed the default value of `weights_only`\n"
    )
    assert crash.versions == {"torch": "2.8.0"}


#: deepspeedai/DeepSpeed#7812, shortened
IGNORED = """Exception ignored in: <function DeepSpeedEngine.__del__ at 0x7f1f0c0d3b50>
Traceback (most recent call last):
  File "/v/lib/python3.11/site-packages/deepspeed/runtime/engine.py", line 565, in __del__
    self.destroy()
AttributeError: 'DeepSpeedEngine' object has no attribute '_deepcompile_active'
"""
TRUE_CRASH = """Traceback (most recent call last):
  File "/home/me/train.py", line 8, in <module>
    trainer.train()
  File "/v/lib/python3.11/site-packages/torch/optim/lr_scheduler.py", line 240, in step
    for param_group, lr in zip(self.optimizer.param_groups, values, strict=True):
ValueError: zip() argument 2 is longer than argument 1
"""


@pytest.mark.parametrize("text", [TRUE_CRASH + IGNORED, IGNORED + TRUE_CRASH])
def test_an_error_that_python_ignores_is_not_the_crash(text: str) -> None:
    found = read(text)
    assert (found.error, found.message) == ("ValueError", "zip() argument 2 is longer than argument 1")


def test_an_ignored_error_alone_is_said_to_be_one() -> None:
    assert read(IGNORED).is_ignored
    assert read("failed (exitcode: -9) local_rank: 3\n" + IGNORED).end is not None


@pytest.mark.parametrize(
    "prefix",
    [
        "0: ",
        "10.141.246.153: ",
        "worker-0  | ",
        "[2026-11-02 10:11:1{},345] [ERROR] [trainer] ",
        "2026-10-02T10:11:1{}.345Z stderr F ",
        "\x1b[36m(Worker pid=12, ip=10.0.0.2)\x1b[0m ",
        "[36m(Worker pid=12, ip=10.0.0.2)[0m ",
        "worker-3  | [rank3]: ",
    ],
)
def test_whatever_stands_before_each_line_is_no_part_of_a_traceback(prefix: str) -> None:
    lines = [f"{prefix.format(at)}{line}" for at, line in enumerate(TRUE_CRASH.splitlines())]
    found = read("\r\n".join(lines))
    assert found.message == "zip() argument 2 is longer than argument 1"
    assert [frame.text for frame in found.frames] == [
        "me/train.py:8 in <module>",
        "torch/optim/lr_scheduler.py:240 in step",
    ]


def test_tracebacks_of_several_ranks_are_told_apart_by_any_prefix() -> None:
    other = TRUE_CRASH.replace("me/train.py", "you/other.py").splitlines()
    pairs = zip(TRUE_CRASH.splitlines(), other, strict=True)
    found = read("\n".join(f"0: {mine}\n1: {theirs}" for mine, theirs in pairs))
    assert [frame.file for frame in found.frames] == ["you/other.py", "torch/optim/lr_scheduler.py"]


def test_the_stack_of_the_thread_that_a_signal_ended_is_the_traceback() -> None:
    found = read(
        "Fatal Python error: Segmentation fault\n\nThread 0x00007f2b (most recent call first):\n"
        '  File "/usr/lib/python3.10/threading.py", line 324 in wait\n\n'
        "Current thread 0x00007f2d (most recent call first):\n"
        '  File "/v/lib/python3.10/site-packages/torch/_tensor.py", line 581 in backward\n'
        '  File "/v/lib/python3.10/site-packages/deepspeed/runtime/zero/stage3.py", line 2250 in backward\n'
        '  File "/home/me/train.py", line 120 in <module>\n'
    )
    assert (found.phase, found.zero_stages) == ("backward", (3,))
    assert found.last_of_user is not None
    assert found.last_of_user.text == "me/train.py:120 in <module>"


WARNING = "/v/lib/python3.11/site-packages/trl/x.py:7: FutureWarning: `tokenizer` is deprecated\n  warnings.warn(\n"


def test_a_warning_that_is_printed_is_no_crash() -> None:
    assert crashes.read_crash(WARNING) is None
    assert read(TRUE_CRASH + WARNING).error == "ValueError"
    assert read(TRUE_CRASH.replace("ValueError", "UserWarning")).error == "UserWarning"  # of -W error


@pytest.mark.parametrize("begins", ["Error in atexit._run_exitfuncs:", "Exception in thread Thread-3 (_monitor):"])
def test_an_error_at_exit_or_of_a_thread_is_not_the_crash_beside_another(begins: str) -> None:
    assert read(f"{TRUE_CRASH}{begins}\nTraceback (most recent call last):\nRuntimeError: x\n").error == "ValueError"


def test_the_class_alone_with_which_pytest_ends_is_not_the_error() -> None:
    found = read(
        "E   ValueError: zip() argument 2 is longer than argument 1\n\ntorch/optim/lr_scheduler.py:240: ValueError\n"
    )
    assert found.message == "zip() argument 2 is longer than argument 1"
