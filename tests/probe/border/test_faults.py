"""Signatures: the same for the same fault, without what belongs to one machine or one run."""

from __future__ import annotations

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


def test_out_of_memory_is_known_by_class_and_by_words() -> None:
    class OutOfMemoryError(RuntimeError):
        """As torch.cuda names it."""

    assert faults.is_out_of_memory(OutOfMemoryError())
    assert faults.is_out_of_memory(MemoryError())
    assert faults.is_out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"))
    assert not faults.is_out_of_memory(RuntimeError("size mismatch"))


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


def test_an_error_of_a_ranks_own_blames_no_other() -> None:
    assert not faults.blames_another_rank("KeyError: 'x' (deepspeed/runtime/zero/stage3.py:step)")
