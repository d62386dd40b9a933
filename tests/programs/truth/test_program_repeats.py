"""The starter of repeats ends with its rank."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from dsregress.probe.harness_fault import HarnessFault
from dsregress.programs.truth import program_repeats
from dsregress.programs.truth.plain_settings import NoTruth
from vgpu.allocator.model import AllocatorSettings, CachingAllocator
from vgpu.no_stand_in import StandIn


def test_it_ends_though_a_process_that_the_program_forked_lives_on(tmp_path: Path) -> None:
    began = time.monotonic()
    with program_repeats.repeats_of_rank(tmp_path, 0, lambda order, rank: None, lambda folder: None, lambda: None):
        worker = os.fork()  # as a data loader's, which has what its parent has opened
        if not worker:
            time.sleep(30)
            os._exit(0)
    assert time.monotonic() - began < 20
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)


def repeated(run: Path, body: program_repeats.Run) -> None:
    """One repeat by one rank, of a program without files."""
    with program_repeats.repeats_of_rank(run, 0, body, lambda folder: None, lambda: None) as at_hand:
        at_hand.order(30.0)


def test_what_ends_a_repeat_is_the_programs_where_it_is_no_fault_of_ours(tmp_path: Path) -> None:
    def refuses(*_: object) -> None:
        raise NoTruth("plain PyTorch has no tensor_parallel")

    with pytest.raises(program_repeats.RepeatFailed, match="NoTruth: plain PyTorch has no tensor_parallel"):
        repeated(tmp_path, refuses)


@pytest.mark.parametrize("status", [0, 1])
def test_a_program_that_ends_its_process_in_a_repeat_leaves_it_without_a_truth(tmp_path: Path, status: int) -> None:
    with pytest.raises(program_repeats.RepeatFailed, match="^it ended$"):
        repeated(tmp_path, lambda *_: os._exit(status))


def test_what_of_ours_breaks_in_a_repeat_is_the_harness_failing(tmp_path: Path) -> None:
    with pytest.raises(HarnessFault, match="the numerics oracle broke in a repeat: KeyError: 7"):
        repeated(tmp_path, lambda *_: CachingAllocator(AllocatorSettings()).free(7))


def test_what_has_no_stand_in_leaves_a_repeat_without_a_truth(tmp_path: Path) -> None:
    with pytest.raises(program_repeats.RepeatFailed, match="has no stand-in"):
        repeated(tmp_path, lambda *_: StandIn("triton").active())
