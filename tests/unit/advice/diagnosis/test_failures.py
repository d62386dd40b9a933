"""Which failures a crash is: by its message, its place and its versions."""

from __future__ import annotations

import msgspec
import pytest

from dsregress.advice.diagnosis import crash as crashes
from dsregress.advice.diagnosis import failures
from dsregress.advice.diagnosis.crash import Crash
from dsregress.compare import Thresholds
from dsregress.model import Cell, Failed, Hardware, Outcome, Passed, Result, Stack

SPLIT = (
    "RuntimeError: Output 0 of Split is a view and is being modified inplace. This view is the output of a function that "
    "returns multi (typing_extensions.py:wrapper)"
)
EXCEEDS = "RuntimeError: start (125184) + length (4096) exceeds dimension size (125216). (deepspeed/x.py:dump)"
ITERABLE = "TypeError: 'NoneType' object is not iterable (deepspeed/runtime/zero/stage_1_and_2.py:epilogue)"


def result(outcome: Outcome) -> Result:
    stack = Stack(python="3.11", versions={"deepspeed": "0.16.4"})
    cell = Cell(
        stack=stack, scenario="s", scenario_version=1, variant="base", device="cpu", framework="f", parameters={}
    )
    return Result(
        schema=1, cell=cell, lock_sha256="", code_sha256="", probe_sha256="", installed={},
        hardware=Hardware(cpu="", cores=1, memory_bytes=1), session="", started_at="", duration_s=0.0, outcome=outcome,
    )  # fmt: skip


def crash(error: str, file: str = "torch/x.py") -> Crash:
    text = f'Traceback (most recent call last):\n  File "/v/site-packages/{file}", line 1, in f\n{error}\n'
    found = crashes.read_crash(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("stored", "error", "file", "is_it"),
    [
        (SPLIT, "RuntimeError: Output 0 of Split is a view and is being modified inplace.", "torch/x.py", True),
        (SPLIT, "ValueError: Output 0 of Split is a view and is being modified inplace.", "torch/x.py", False),
        (EXCEEDS, "RuntimeError: start (96) + length (8) exceeds dimension size (100).", "torch/x.py", True),
        (ITERABLE, "TypeError: 'NoneType' object is not iterable", "torch/x.py", False),  # too short without its place
        (ITERABLE, "TypeError: 'NoneType' object is not iterable", "deepspeed/runtime/zero/stage_1_and_2.py", True),
        (ITERABLE, "TypeError: 'int' object is not iterable", "deepspeed/runtime/zero/stage_1_and_2.py", False),
    ],
)
def test_a_stored_failure_by_its_message_and_place(stored: str, error: str, file: str, is_it: bool) -> None:
    assert bool(failures.matching(crash(error, file), [result(Failed("backward", stored))])) is is_it


def test_a_problem_is_that_of_the_package_whose_releases_tell_it_apart() -> None:
    def ran(transformers: str, outcome: Outcome) -> Result:
        one = result(outcome)
        stack = Stack(python="3.11", versions={"transformers": transformers, "deepspeed": "0.18.9"})
        return msgspec.structs.replace(one, cell=msgspec.structs.replace(one.cell, stack=stack))

    stored = [ran("4.55.4", Passed()), ran("4.57.0", Failed("forward", EXCEEDS))]
    found = crash("RuntimeError: start (96) + length (8) exceeds dimension size (100).")
    (problem,) = failures.of_crash(found, "results", stored, "deepspeed", "0.15.0", Thresholds())
    assert problem.package == "transformers"


def test_failures_that_differ_in_their_place_alone_are_one() -> None:
    other = ITERABLE.replace("epilogue", "prologue")
    assert len(failures.failures([result(Failed("backward", one)) for one in (ITERABLE, other, SPLIT)])) == 2
