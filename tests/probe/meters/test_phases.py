"""MeteredPhases and timed steps, with a made-up meter and stopwatch in the place of a framework's."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from dsregress.probe.border.wire import Clocks
from dsregress.probe.meters.phases import HostStopwatch, TimedPhases, walk
from vgpu.figures import PhaseReading
from vgpu.watching.metered_phases import MeteredPhases


class PretendedJob:
    """Two micro-batches that do nothing."""

    micro_batches = 2

    def forward(self, micro_batch: int) -> None: ...

    backward = step = forward

    def next_batch(self) -> None: ...


@dataclass
class Cards:
    """A meter that tells one smallest card after the other."""

    needed: list[int | None]

    def begin(self) -> None: ...

    def end(self) -> PhaseReading:
        card = self.needed.pop(0)
        return PhaseReading(smallest_card_bytes=card, reserved_peak_bytes=card)


@dataclass
class Ticks:
    """A device whose work takes one second between any two marks."""

    told: list[str] = field(default_factory=list)
    now: float = 0.0

    def start(self) -> None:
        self.told.append("start")

    def mark(self) -> float:
        self.now += 1.0
        return self.now

    def stop(self) -> None:
        self.told.append("stop")

    def seconds(self, begin: float, end: float) -> float:
        return end - begin

    def clocks(self) -> Clocks | None:
        return None


def test_the_card_that_a_phase_needs_is_that_of_its_neediest_step() -> None:
    metered = MeteredPhases(Cards([9, 30, 40, 10, 31, 41, 11, 20, 42, 12, 20, 35]))  # type: ignore[arg-type]
    walk(PretendedJob(), metered)  # type: ignore[arg-type]
    metered.readings = {}  # the warm-up step's are dropped
    walk(PretendedJob(), metered)  # type: ignore[arg-type]
    needed = {name: reading.smallest_card_bytes for name, reading in metered.readings.items()}
    assert needed == {"forward": 12, "backward": 31, "step": 42}
    assert metered.readings["backward"].reserved_peak_bytes == 20


def test_where_no_allocator_is_modelled_no_card_is_named() -> None:
    metered = MeteredPhases(Cards([None] * 6))  # type: ignore[arg-type]
    walk(PretendedJob(), metered)  # type: ignore[arg-type]
    assert {reading.smallest_card_bytes for reading in metered.readings.values()} == {None}


def test_a_round_adds_up_the_micro_batches_by_the_device_s_own_clock() -> None:
    ticks = Ticks()
    seconds = TimedPhases(ticks).round(PretendedJob())  # type: ignore[arg-type]
    assert seconds == {"forward": 2.0, "backward": 2.0, "step": 2.0}
    assert ticks.told == ["start", "stop"]


def test_the_host_s_clock_needs_nothing_of_a_device() -> None:
    seconds = TimedPhases(HostStopwatch()).round(PretendedJob())  # type: ignore[arg-type]
    assert list(seconds) == ["forward", "backward", "step"]
    assert min(seconds.values()) >= 0


def test_micro_batches_fold_peaks_by_maximum_counts_by_sum_and_keep_the_last_retained() -> None:
    one = PhaseReading(device_peak_bytes=10, device_retained_bytes=8, op_launches=2, collectives={"all_gather": [1, 4]})
    two = PhaseReading(device_peak_bytes=7, device_retained_bytes=3, op_launches=5, collectives={"all_gather": [2, 6]})
    folded = one.folded_with(two)
    assert (folded.device_peak_bytes, folded.device_retained_bytes, folded.op_launches) == (10, 3, 7)
    assert folded.collectives == {"all_gather": [3, 10]}


@dataclass
class Bracketed:
    """A meter that knows whether a phase is open."""

    is_open: bool = False
    breaks: bool = False

    def begin(self) -> None:
        assert not self.is_open
        self.is_open = True

    def end(self) -> PhaseReading:
        self.is_open = False
        if self.breaks:
            raise RuntimeError("the card is lost")
        return PhaseReading()


@pytest.mark.parametrize("breaks", [False, True])
def test_a_phase_that_raises_is_over_for_the_meter_and_has_no_reading(breaks: bool) -> None:
    meter = Bracketed(breaks=breaks)
    metered = MeteredPhases(meter)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^in it$"), metered("forward"):
        raise ValueError("in it")
    assert (meter.is_open, metered.readings) == (False, {})
