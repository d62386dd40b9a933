"""Which advisory a crash is: by its error, its place, its versions; and by the same rules as `audit`."""

from __future__ import annotations

import msgspec
import pytest

from dsregress.advice.diagnosis.crash import Crash, read_crash
from dsregress.advice.diagnosis.known_errors import goes_through, matching_advisories, message_alone
from dsregress.advisories.advisory import AdvisoryKind, RaisedError
from dsregress.advisories.auditing import audit_job
from dsregress.advisories.matching import Matched
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.upgrading import judge_upgrade
from tests.unit.advisories.questions import QUESTIONS, Question, ids, stated

RAISING = [(one, error) for one in read_advisories() if not one.withdrawn for error in one.raises if error.message]


def crashed(error: RaisedError, versions: dict[str, str], file: str = "") -> Crash:
    pins = "".join(f"{name}=={version}\n" for name, version in versions.items())
    place = file or (error.file + "x.py" if error.file.endswith("/") else error.file) or "torch/x.py"
    text = f'{pins}Traceback (most recent call last):\n  File "/v/site-packages/{place}", line 1, in f\n'
    crash = read_crash(f"{text}{error.error}: {error.message}\n")
    assert crash is not None
    return crash


def known(error: RaisedError, versions: dict[str, str], file: str = "") -> tuple[str, ...]:
    return ids(matching_advisories(crashed(error, versions, file), read_advisories())[0])


@pytest.mark.parametrize(("advisory", "error"), RAISING, ids=lambda one: getattr(one, "id", ""))
def test_an_error_is_of_its_advisory_alone(advisory: object, error: RaisedError) -> None:
    assert known(error, {}) == (advisory.id,)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("advisory", "error"), RAISING, ids=lambda one: getattr(one, "id", ""))
def test_the_same_words_of_another_class_are_another_error(advisory: object, error: RaisedError) -> None:
    place = error.file + "x.py" if error.file.endswith("/") else error.file or "torch/x.py"
    assert known(msgspec.structs.replace(error, error="LookupError"), {}, place) == ()


@pytest.mark.parametrize(("called", "is_it"), [("backward", True), ("forward", False)])
def test_memory_runs_out_in_the_phase_of_the_advisory(called: str, is_it: bool) -> None:
    place = f'File "/v/site-packages/deepspeed/runtime/engine.py", line 1, in {called}'
    crash = read_crash(
        f"deepspeed==0.16.4\nTraceback (most recent call last):\n  {place}\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB.\n"
    )
    assert crash is not None
    assert ids(matching_advisories(crash, read_advisories())[0]) == (("DSR-2026-0020",) if is_it else ())


def test_a_crash_of_an_advisory_has_an_error() -> None:
    """Save the one whose messages other faults have as well."""
    without = [one.id for one in read_advisories() if one.kind is AdvisoryKind.CRASHES and not one.raises]
    assert without == ["DSR-2026-0099"]


@pytest.mark.parametrize(("version", "is_it"), [("", True), ("0.16.4", True), ("0.18.5", False)])
def test_a_release_narrows_it(version: str, is_it: bool) -> None:
    error = RaisedError(
        error="IndexError", message="list index out of range", file="deepspeed/runtime/zero/parameter_offload.py"
    )
    versions = {"deepspeed": version} if version else {}
    assert known(error, versions) == (("DSR-2026-0067",) if is_it else ())
    assert known(error, versions, "transformers/trainer.py") == ()


def test_the_stage_that_the_traceback_goes_through_narrows_it() -> None:
    error = RaisedError(
        error="CheckpointError", message="Recomputed values for the following tensors have different metadata"
    )
    assert known(error, {}, "deepspeed/runtime/zero/stage3.py") == ("DSR-2026-0018",)
    assert known(error, {}, "deepspeed/runtime/zero/stage_1_and_2.py") == ()


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.name)
def test_a_crash_of_which_an_audit_warns_is_known_by_the_same_advisory(question: Question) -> None:
    old = stated(question)
    new = old.going_to(question.to)
    found: list[Matched] = [*audit_job(read_advisories(), new.job).concerned]
    found += judge_upgrade(read_advisories(), old.job, new.job).against
    for one in found:
        for error in one.advisory.raises:
            if error.message:
                assert known(error, dict(new.versions)) == (one.advisory.id,)


@pytest.mark.parametrize(
    ("files", "is_through"),
    [
        (["torch/optim/lr_scheduler.py"], False),  # the fault is LoRA's under DeepSpeed
        (["transformers/trainer.py", "torch/optim/lr_scheduler.py"], False),
        (["transformers/trainer.py", "deepspeed/runtime/engine.py", "torch/optim/lr_scheduler.py"], True),
        (["accelerate/utils/deepspeed.py", "torch/optim/lr_scheduler.py"], True),
        (["deepspeed/runtime/engine.py"], False),  # and the error is torch's
        ([], True),  # a message alone misses nothing
    ],
)
def test_a_traceback_goes_through_the_packages_that_an_advisory_is_about(files: list[str], is_through: bool) -> None:
    frames = "".join(f'  File "/v/site-packages/{file}", line 1, in f\n' for file in files)
    head = f"Traceback (most recent call last):\n{frames}" if files else ""
    crash = read_crash(f"{head}ValueError: zip() argument 2 is longer than argument 1\n")
    assert crash is not None
    (advisory,) = (one for one in read_advisories() if one.id == "DSR-2026-0015")
    assert goes_through(crash, advisory) is is_through


def test_without_a_traceback_a_class_of_a_package_tells_more_than_one_of_python() -> None:
    unpickling = read_crash(
        "torch==2.6.0\n_pickle.UnpicklingError: Weights only load failed. This file can still be loaded"
    )
    shared = read_crash("TypeError: 'NoneType' object is not iterable")
    assert unpickling is not None
    assert shared is not None
    assert ids(matching_advisories(unpickling, read_advisories())[0]) == ("DSR-2026-0016", "DSR-2026-0075")
    assert ids(matching_advisories(shared, read_advisories())[0]) == ()


def test_a_message_alone_is_the_error_that_has_it() -> None:
    crash = message_alone("deepspeed==0.15.4\nWeights only load failed\n", read_advisories())
    assert crash is not None
    assert (crash.error, crash.message, crash.versions) == (
        "UnpicklingError",
        "Weights only load failed",
        {"deepspeed": "0.15.4"},
    )
    for text in ("'NoneType' object is not iterable", "nothing of the kind", ""):
        assert message_alone(text, read_advisories()) is None
