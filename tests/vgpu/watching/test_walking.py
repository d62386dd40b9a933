"""The phases of a program, with a made-up meter: what ends one, and what it leaves."""

from __future__ import annotations

from typing import Any

import pytest

from vgpu.figures import PhaseReading
from vgpu.watching.metered_phases import MeteredPhases
from vgpu.watching.walking import PhaseWalk


class PretendedMeter:
    """Remembers what it was told, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def __enter__(self) -> None:
        self.told.append("on")

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.told.append(("off", kind))

    def begin(self) -> None:
        self.told.append("begin")

    def end(self) -> PhaseReading:
        self.told.append("end")
        return PhaseReading()


class Walked:
    """A walk, and what came of it."""

    def __init__(self) -> None:
        self.meter, self.announced = PretendedMeter(), list[str]()
        self.metered = MeteredPhases(self.meter)  # type: ignore[arg-type]
        self.walk = PhaseWalk(self.meter, self.metered, self.announced.append)  # type: ignore[arg-type]
        self.walk.begin()


def test_a_phase_lasts_until_the_next_one() -> None:
    walked = Walked()
    walked.walk.enter("forward")
    walked.walk.enter("backward", announced=False)
    assert walked.walk.name == "backward"
    walked.walk.end()
    assert walked.walk.name == ""
    assert walked.announced == ["init", "forward"]
    assert list(walked.metered.readings) == ["init", "forward", "backward"]
    assert walked.meter.told == ["on", *["begin", "end"] * 3, ("off", None)]


def test_a_phase_that_an_error_ends_has_no_reading_and_all_learn_of_the_error() -> None:
    walked = Walked()
    walked.walk.enter("forward")

    def run() -> None:
        try:
            raise ValueError("in it")
        finally:
            walked.walk.end()

    with pytest.raises(ValueError, match="^in it$"):
        run()
    assert list(walked.metered.readings) == ["init"]
    assert walked.meter.told == ["on", *["begin", "end"] * 2, ("off", ValueError)]


def test_a_phase_that_begins_where_the_program_handles_an_error_counts() -> None:
    walked = Walked()
    try:
        raise ValueError("no fast kernels here")
    except ValueError:
        walked.walk.enter("forward")
        walked.walk.enter("backward")
    walked.walk.end()
    assert list(walked.metered.readings) == ["init", "forward", "backward"]


def test_what_is_dropped_has_no_reading() -> None:
    walked = Walked()
    walked.walk.enter("forward")
    walked.walk.end(drop=True)
    assert list(walked.metered.readings) == ["init"]
    assert walked.meter.told[-2:] == ["end", ("off", None)]
