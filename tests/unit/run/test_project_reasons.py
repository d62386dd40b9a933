"""Reasons of a failure that the project's files tell."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import pytest

from dsregress.model import Failed, Stack
from dsregress.run.available_workloads import Program
from dsregress.run.pipeline import Choice
from dsregress.run.program_remedies import Attempt, OfItsDay, remedy_of
from dsregress.run.project_reasons import with_project_reason

STACK = Stack(python="3.11", versions={"torch": "2.13.0", "transformers": "4.35.2", "deepspeed": "0.16.8"})
GIVEN = Attempt(
    program=Program(line="python train.py", folder="/x"),
    choice=Choice(versions={"transformers": "4.35.2"}),
    pinned=("transformers",),
    stacks={"transformers-4": {"transformers": "4.57.6"}},
)


def of_no_day(packages: Collection[str]) -> OfItsDay:
    return OfItsDay("", {})


LACKS = Failed("import", "CannotRun: train.py lacks the module 'monotonic_align': add its package with --with PACKAGE")


def test_what_a_project_takes_from_a_repository_is_said_with_how_to_install_it() -> None:
    taken = ("github.com/resemble-ai/monotonic_align", "requirements.txt")
    attempt = msgspec.structs.replace(GIVEN, addressed={"monotonic-align": taken}, others={"pydub": "", "nltk": ""})
    assert remedy_of(LACKS, attempt, STACK, of_no_day) is None
    assert with_project_reason(LACKS, attempt, STACK, of_no_day) == Failed(
        "import",
        "CannotRun: it lacks 'monotonic_align', which its project takes from github.com/resemble-ai/monotonic_align "
        "(requirements.txt): `pip install --no-deps --target DIR git+https://github.com/resemble-ai/monotonic_align`, and "
        "write DIR into PYTHONPATH before the line",
        LACKS.signature,
    )
    assert with_project_reason(LACKS, GIVEN, STACK, of_no_day) is LACKS


@pytest.mark.parametrize(
    "signature",
    [
        "ImportError: cannot import name '_expand_mask' from 'transformers.models.bloom' (transformers/models/bloom.py:1)",
        "ValueError: 'llava' is already used by a Transformers config (transformers/models/auto/x.py:register)",
    ],
)
def test_a_pin_that_is_too_old_is_the_reason_of_what_fails_with_another_release(signature: str) -> None:
    attempt = msgspec.structs.replace(GIVEN, too_old={"transformers": "transformers==4.31.0 (requirements.txt)"})
    failed = Failed("init", signature)
    assert remedy_of(failed, attempt, STACK, of_no_day) is None
    found = with_project_reason(failed, attempt, STACK, of_no_day)
    assert isinstance(found, Failed)
    assert found.signature.startswith(
        "CannotRun: its project requires transformers==4.31.0 (requirements.txt), which is too old to be measured, and "
        f"fails with transformers 4.35.2 ({signature[:20]}"
    )
    assert found.signature.endswith(": to try that one all the same, give --deepspeed 0.16.8 --transformers 4.31.0")
    assert (found.stage, found.detail) == ("import", signature)


@pytest.mark.parametrize(
    "signature",
    [
        "TypeError: f() got an unexpected keyword argument 'x' (train.py:12)",
        "ValueError: got 0 (train.py:12)",
        "ValueError: got 0 (datasets/load.py:load)",
        "NotHere: x",
    ],
)
def test_a_pin_that_is_too_old_is_no_reason_of_what_fails_elsewhere(signature: str) -> None:
    attempt = msgspec.structs.replace(GIVEN, too_old={"transformers": "transformers==4.31.0 (requirements.txt)"})
    failed = Failed("init", signature)
    assert with_project_reason(failed, attempt, STACK, of_no_day) is failed


def test_a_torch_that_is_not_here_for_the_cpu_is_the_next_step_for_what_torchvision_lost() -> None:
    def of_its_day(packages: Collection[str]) -> OfItsDay:
        return OfItsDay("2026-01-27", {}, unbuilt_torch="2.10.0")

    stack = msgspec.structs.replace(STACK, versions={**STACK.versions, "torchvision": "0.28.0"})
    gone = Failed("init", "ImportError: cannot import name 'write_video' from 'torchvision.io' (x.py) (a.py:9)")
    found = with_project_reason(gone, GIVEN, stack, of_its_day)
    assert found == Failed(
        "import",
        "CannotRun: torchvision 0.28.0 does not go with it (ImportError: cannot import name 'write_video' from "
        "'torchvision.io' (x.py)), and no index that can be reached has torch 2.10.0, of its last commit, for the CPU: "
        "--deepspeed 0.16.8 --torch 2.10.0 installs its CUDA packages, too",
        gone.signature,
    )
    named = msgspec.structs.replace(GIVEN, choice=Choice(versions={"torch": "2.13.0"}))
    assert with_project_reason(gone, named, stack, of_its_day) is gone
