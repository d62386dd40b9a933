"""Signatures: the same for the same fault, without what belongs to one machine or one run."""

from __future__ import annotations

import json
import runpy
import time
from pathlib import Path

import pytest

from harness.probe.border import faults


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
