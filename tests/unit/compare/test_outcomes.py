"""Which failures are one fault, whatever the sizes of the model that met it."""

from __future__ import annotations

import pytest

from dsregress.compare import Thresholds, compare
from dsregress.compare.outcomes import fault_of, signature_text, telling_part
from dsregress.model import Failed, Outcome, Passed, TimedOut
from tests.builders import synthetic

EXCEEDS = (
    "RuntimeError: start (125184) + length (4096) exceeds dimension size (125216). (deepspeed/checkpoint/x.py:dump)"
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (EXCEEDS, "RuntimeError: start (96) + length (8) exceeds dimension size (100). (deepspeed/checkpoint/y.py:dump)"),
        ("tensor a (128) must match the size of tensor b (64)", "tensor a (9) must match the size of tensor b (7)"),
        ("shapes cannot be multiplied (4x128 and 64x256)", "shapes cannot be multiplied (2x3 and 4x5)"),
        ("shape '[1, 2, -1]' is invalid for input of size 64", "shape '[8, -1]' is invalid for input of size 7"),
        ("index 125184 is out of bounds for dimension 0", "index 4097 is out of bounds for dimension 0"),
        ("Tried to allocate 2.00 GiB.", "Tried to allocate 14.5 GiB."),
        ("no weight of torch.Size([2, 3])", "no weight of torch.Size([4])"),
        ("expected 12 elements", "expected 7 elements"),
    ],
)  # fmt: skip
def test_sizes_and_places_do_not_tell_faults_apart(one: str, other: str) -> None:
    assert fault_of(Failed("step", one)) == fault_of(Failed("step", other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("zip() argument 2 is longer than argument 1", "zip() argument 3 is longer than argument 1"),
        ("rank ended with exit code 137", "rank ended with exit code 139"),
        ("must match at non-singleton dimension 0", "must match at non-singleton dimension 1"),
        ("storage of size 0", "storage of size 4096"),  # what is partitioned is empty
        ("got vec (0)", "got vec (64)"),
        ("torch 2.9.1 is not supported", "torch 2.13.0 is not supported"),
        ("no kernel for bf16", "no kernel for fp16"),
        ("expected 0 elements", "expected 7 elements"),
    ],
)
def test_other_numbers_do(one: str, other: str) -> None:
    assert fault_of(Failed("step", one)) != fault_of(Failed("step", other))


@pytest.mark.parametrize(
    ("outcome", "part"),
    [
        (Failed("step", EXCEEDS), "exceeds dimension size"),
        (
            Failed("step", "TypeError: 'NoneType' object is not iterable (deepspeed/x.py:f)"),
            "TypeError: 'NoneType' object is not iter",
        ),
        (Failed("step", "ValueError: 5"), "ValueError: 5"),
        (TimedOut(stage="step", limit_s=60), "no sign of life for"),
    ],
)
def test_what_a_fault_is_known_by_has_no_size_in_it(outcome: Outcome, part: str) -> None:
    assert telling_part(outcome, 40) == part
    assert part in signature_text(outcome)


def test_how_long_a_cell_was_silent_does_not_tell_faults_apart() -> None:
    silent, longer = (TimedOut(stage="step", limit_s=limit_s) for limit_s in (60, 180))
    assert fault_of(silent) == fault_of(longer)
    assert fault_of(silent) != fault_of(TimedOut(stage="step", limit_s=60, working=True))


@pytest.mark.parametrize("own", [Passed(), Failed("save", "KeyError: 'at the end'")])
def test_a_program_that_fails_once_it_is_measured_with_the_baseline_too_is_compared(own: Outcome) -> None:
    base = Failed("save", "KeyError: 'at the end'")
    larger = synthetic.record()
    for rank in larger.ranks:
        rank.phases["forward"].device_peak_bytes *= 2
    runs = synthetic.result(outcome=base, run=synthetic.record()), synthetic.result("0.16.4", outcome=own, run=larger)
    found = compare(runs, synthetic.stack("0.15.0").id, Thresholds(), lambda _: None)
    assert "device_peak_bytes" in {one.metric for one in found.findings if one.stack == synthetic.stack("0.16.4").id}


def test_a_program_that_fails_once_it_is_measured_is_a_crash_beside_a_pass() -> None:
    runs = (
        synthetic.result(),
        synthetic.result("0.16.4", outcome=Failed("save", "KeyError: 'at the end'"), run=synthetic.record()),
    )
    found = compare(runs, synthetic.stack("0.15.0").id, Thresholds(), lambda _: None)
    assert [(one.kind, one.phase) for one in found.findings] == [("failed", "save")]
