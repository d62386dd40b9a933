"""Signatures: the same for the same fault, without what belongs to one machine or one run."""

from __future__ import annotations

import importlib
import json
import re
import runpy
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from dsregress.probe.border import faults
from dsregress.probe.border.own_code import SOURCES
from vgpu.allocator.model import AllocatorSettings, CachingAllocator
from vgpu.no_stand_in import NoStandInError, StandIn


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_addresses_folders_ports_and_colours_are_not_part_of_a_signature() -> None:
    text = "\x1b[31mno /home/me/x/lib.so at 0x7f00aa in /v/lib/site-packages/deepspeed/a.py port 4711\x1b[0m"
    assert faults.stable(text) == "no .../lib.so at 0x... in deepspeed/a.py :PORT"


def test_a_signature_is_one_line_of_limited_length() -> None:
    signature = faults.signature_of(raised(ValueError("first\nsecond " + "x" * 500)))
    assert signature == "ValueError: first"
    assert len(faults.signature_of(raised(ValueError("x" * 500)))) <= faults.SIGNATURE_LENGTH


def test_an_error_of_validation_names_the_setting() -> None:
    said = (
        "1 validation error for DeepSpeedZeroConfig\nstage3_prefetch_bucket_size\n  Input should be a valid integer, got a "
        "number with a fractional part [type=int_from_float, input_value=15099494.4, input_type=float]\n    For further ..."
    )
    assert faults.signature_of(raised(ValueError(said))) == (
        "ValueError: 1 validation error for DeepSpeedZeroConfig: stage3_prefetch_bucket_size: Input should be a valid "
        "integer, got a number with a fractional part"
    )
    assert (
        faults.signature_of(raised(ValueError("2 validation errors for X"))) == "ValueError: 2 validation errors for X"
    )


def test_a_first_line_that_only_introduces_the_next_one_has_it() -> None:
    said = (
        'Error(s) in loading state_dict for Llama:\n\tMissing key(s) in state_dict: "lm_head.weight". \n\tsize mismatch'
    )
    assert faults.signature_of(raised(RuntimeError(said))) == (
        'RuntimeError: Error(s) in loading state_dict for Llama: Missing key(s) in state_dict: "lm_head.weight".'
    )
    assert faults.signature_of(raised(RuntimeError("this ends so:"))) == "RuntimeError: this ends so"


def test_an_error_without_a_message_is_named_by_its_type() -> None:
    assert faults.signature_of(raised(ValueError())) == "ValueError"


def test_an_import_that_failed_for_another_import_is_named_by_the_other() -> None:
    error = raised(ModuleNotFoundError("No module named 'joblib'"))
    for name in ("GenerationMixin", "AutoModel"):
        try:
            raise ModuleNotFoundError(f"Could not import module '{name}'") from error
        except ModuleNotFoundError as caught:
            error = caught
    assert faults.signature_of(error) == "ModuleNotFoundError: No module named 'joblib'"


def test_an_error_that_only_repeats_its_cause_is_named_by_the_cause() -> None:
    cause = raised(ImportError("cannot import name 'clear_device_cache' from 'accelerate.utils.memory'"))
    try:
        raise RuntimeError(
            "Failed to import transformers.trainer because of the following error (look up to see its traceback):\n"
            f"{cause}"
        ) from cause
    except RuntimeError as error:
        assert faults.signature_of(error) == f"ImportError: {cause}"
    try:
        raise RuntimeError(f"the trainer cannot be imported: {cause}") from cause
    except RuntimeError as error:
        assert faults.signature_of(error) == f"RuntimeError: {error}"


def test_what_has_no_stand_in_says_nothing_of_a_release_whatever_reports_it() -> None:
    gap = raised(NoStandInError("DeepSpeed's cpu_adam.ctrl_size has no stand-in"))
    try:
        raise ValueError("cannot start") from gap
    except ValueError as error:
        assert faults.stage_of(error) == "harness"
        assert faults.signature_of(error) == f"NoStandInError: {gap}"
    assert faults.stage_of(raised(ValueError("cannot start"))) is None


def test_what_to_do_without_a_stand_in_is_not_cut_for_the_place(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "deepspeed" / "runtime" / "zenflow" / "zenflow_utils.py"
    library.parent.mkdir(parents=True)
    library.write_text("def start_optimizer_process(kernel):\n    kernel.zenflow_adam_ctrl_size()\n")
    start = runpy.run_path(str(library))["start_optimizer_process"]
    with pytest.raises(NoStandInError) as caught:
        start(StandIn("DeepSpeed's cpu_adam"))
    assert faults.signature_of(caught.value) == (
        "NoStandInError: DeepSpeed's cpu_adam.zenflow_adam_ctrl_size has no stand-in: leave out what needs it, or run on "
        "cuda (zenflow_utils.py:start_optimizer_process)"
    )


def test_a_slip_of_the_probe_itself_differs_from_an_error_of_what_it_measures() -> None:
    with pytest.raises(KeyError) as caught:
        CachingAllocator(AllocatorSettings()).free(7)
    assert faults.stage_of(caught.value) == "harness"
    assert re.fullmatch(r"KeyError: 7 \(vgpu/allocator/model.py:\d+\)", faults.signature_of(caught.value))
    with pytest.raises(KeyError) as caught:
        json.loads("{}")["loss"]
    assert faults.stage_of(caught.value) is None


@pytest.mark.parametrize(
    "line", ["importlib.import_module('torch.no_such_module')", "getattr(torch, 'no_such_function')"]
)
def test_what_the_probe_seeks_in_an_older_torch_is_no_crash_of_a_release(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = types.ModuleType("torch")
    monkeypatch.setitem(sys.modules, "torch", torch)
    names = {"importlib": importlib, "torch": torch}
    probe = SOURCES / "vgpu" / "meters" / "meter.py"
    with pytest.raises((AttributeError, ImportError)) as caught:
        exec(compile(line, str(probe), "exec"), names)
    assert faults.stage_of(caught.value) == "harness"
    assert faults.signature_of(caught.value).endswith("(vgpu/meters/meter.py:1)")
    with pytest.raises((AttributeError, ImportError)) as caught:
        exec(compile(line, str(tmp_path / "train.py"), "exec"), names)
    assert faults.stage_of(caught.value) is None


def test_an_error_of_a_program_itself_is_named_with_its_line(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("import json\n\njson.loads('{')\n")
    with pytest.raises(json.JSONDecodeError) as caught:
        runpy.run_path(str(program), run_name="__main__")
    assert faults.signature_of(caught.value).endswith("(train.py:3)")


def test_an_error_of_a_program_that_a_library_calls_is_named_with_its_line_as_well(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "click" / "core.py"
    library.parent.mkdir(parents=True)
    library.write_text("def invoke(callback):\n    callback()\n")
    program = tmp_path / "train.py"
    program.write_text(
        f"import runpy\ninvoke = runpy.run_path({str(library)!r})['invoke']\n"
        "def main():\n    raise ValueError('no data')\ninvoke(main)\n"
    )
    with pytest.raises(ValueError, match="no data") as caught:
        runpy.run_path(str(program), run_name="__main__")
    assert faults.signature_of(caught.value) == "ValueError: no data (train.py:4)"


def test_an_error_beneath_a_function_that_torch_marks_as_old_is_the_caller_s() -> None:
    names: dict[str, Any] = {}
    for file, code in (
        ("torch/distributed/collectives.py", "def gather():\n    raise RuntimeError('invalid tensor type')"),
        ("typing_extensions.py", "def wrapper():\n    gather()"),
        ("framework/stage3.py", "def step():\n    wrapper()"),
    ):
        exec(compile(code, f"/v/lib/site-packages/{file}", "exec"), names)
    with pytest.raises(RuntimeError) as caught:
        names["step"]()
    assert faults.signature_of(caught.value) == "RuntimeError: invalid tensor type (framework/stage3.py:step)"


def test_out_of_memory_is_known_by_class_and_by_words() -> None:
    class OutOfMemoryError(RuntimeError):
        """As torch.cuda names it."""

    assert faults.is_out_of_memory(OutOfMemoryError())
    assert faults.is_out_of_memory(MemoryError())
    assert faults.is_out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"))
    assert not faults.is_out_of_memory(RuntimeError("size mismatch"))


PIECES = ["/", "a/", "-/a", "/site-packages", "/x/site-packages/", "0x", "\x1b[0;", "port ", ":1234", " ", "pid ", "a"]


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_message_takes_time_in_proportion_to_its_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        began = time.process_time()
        faults.without_folders(text)
        faults.stable(text)
        return time.process_time() - began

    short, long = seconds(20_000), seconds(320_000)
    assert long < 100 * short + 0.1  # 16 times as long: 16 times the work, or 256 times


@pytest.mark.parametrize("piece", PIECES)
def test_the_real_error_is_named_however_long_it_is(piece: str) -> None:
    error = raised(ValueError("the cause: " + piece * 900_000))
    began = time.process_time()
    assert faults.signature_of(error).startswith("ValueError: the cause:")
    assert len(faults.detail_of(error)) <= faults.DETAIL_LENGTH
    assert not faults.is_out_of_memory(error)
    assert time.process_time() - began < 5  # it was minutes


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/home/me/v/lib/site-packages/torch/x.py", "torch/x.py"),
        ("at /a/site-packages/b/dist-packages/c.py, at x/y", "at c.py, at x/y"),
        ("pkg=/v/site-packages/c.py", "pkg=c.py"),
        ("/site-packages/c.py", ".../c.py"),
    ],
)
def test_paths_are_cut_at_the_installed_package(text: str, kept: str) -> None:
    assert faults.without_folders(text) == kept


def test_half_a_folder_at_the_cut_is_not_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("/home/alice/secret" + "/deep" * 20_000 + "/x.py: no\nthe end")
    assert faults.tail(str(log)) == "no\nthe end"


def test_a_long_name_of_a_function_leaves_room_for_the_message(tmp_path: Path) -> None:
    code = f"def {'f' * 500}(): raise ValueError('the message')\n{'f' * 500}()"
    try:
        exec(compile(code, "/v/lib/site-packages/framework/a.py", "exec"))  # a release's own code
    except ValueError as error:
        signature = faults.signature_of(error)
    assert signature.startswith("ValueError: the message (")
    assert len(signature) <= faults.SIGNATURE_LENGTH


def test_links_are_not_taken_for_folders() -> None:
    assert (
        faults.without_folders("see https://example.org/a/b and /etc/ssl/x.pem")
        == "see https://example.org/a/b and .../x.pem"
    )


def test_signals_are_named() -> None:
    assert faults.signal_signature(9) == "killed by SIGKILL"


DIED = """\
step=1 loss=5.5451
terminate called after throwing an instance of 'gloo::EnforceNotMet'
  what():  [enforce fail at /__w/pytorch/pytorch/third_party/gloo/pair.cc:456] 16384 vs 4. At 0x7ff3b243
Fatal Python error: Aborted

Thread 0x00007ff382c7d6c0 (most recent call first):
  File "/home/me/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 4287 in all_gather

Current thread 0x00007ff3b2432b80 (most recent call first):
  File "/home/me/v/lib/python3.11/site-packages/torch/autograd/graph.py", line 841 in _engine_run_backward
  File "train.py", line 61 in main
"""


def test_a_signal_is_said_with_what_the_process_said_of_it_and_where_it_was() -> None:
    said = "killed by SIGABRT: [enforce fail at .../pair.cc:456] 16384 vs 4. At 0x..."
    place = "(torch/autograd/graph.py:_engine_run_backward)"
    assert faults.signal_signature(6, DIED) == f"{said} {place}"
    assert faults.signal_signature(11, DIED.partition("Fatal")[2]) == f"killed by SIGSEGV {place}"
    assert len(faults.signal_signature(6, DIED.replace("vs", "vs" * 900))) <= faults.SIGNATURE_LENGTH


@pytest.mark.parametrize(
    "signature",
    [
        "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer",
        "DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1275, remote process exited",
        "RuntimeError: Timed out waiting 1800000ms for recv operation to complete",
    ],
)
def test_an_error_of_communication_blames_another_rank(signature: str) -> None:
    assert faults.blames_another_rank(signature)


@pytest.mark.parametrize(
    "signature", ["KeyError: 'x' (deepspeed/runtime/zero/stage3.py:step)", "TypeError: 'x' is None"]
)
def test_an_error_of_a_ranks_own_blames_no_other(signature: str) -> None:
    assert not faults.blames_another_rank(signature)


def test_secrets_of_a_message_are_in_no_signature_and_no_detail() -> None:
    error = ValueError("unrecognized arguments: --api_key X0 https://me:X0@host")
    assert faults.signature_of(error) == "ValueError: unrecognized arguments: --api_key *** https://***@host"
    assert "X0" not in faults.detail_of(error)


def test_an_error_of_a_loaders_worker_is_named_by_its_reason() -> None:
    said = (
        "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
        "  File \"train.py\", line 9, in fill\n    rows.put(row['title'])\nKeyError: 'title'\n"
    )
    assert faults.signature_of(RuntimeError(said)) == "RuntimeError: 'title'"
