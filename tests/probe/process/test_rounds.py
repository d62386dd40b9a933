"""When a rank's next timed round begins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.probe.process import rounds
from harness.probe.process.channel import Channel, pair
from harness.probe.process.rounds import Rounds


class Core:
    """A core and its clock: the computation takes as long as ``sums`` say in turn, in seconds, the last one from then on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *sums: float) -> None:
        self.now, self.slept = 0.0, 0
        self._sums = list(sums)
        monkeypatch.setattr(rounds, "perf_counter", lambda: self.now)
        monkeypatch.setattr(rounds, "sleep", self._sleep)
        monkeypatch.setattr(rounds, "_ADDENDS", self)

    def __iter__(self) -> Core:
        self.now += self._sums.pop(0) if len(self._sums) > 1 else self._sums[0]
        return self

    def __next__(self) -> int:
        raise StopIteration

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += 1


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = pair()
    yield ours, theirs
    ours.close()
    theirs.close()


def settle(ours: Channel, rank: Rounds) -> None:
    """One round, before which the rank settles."""
    ours.send({"do": "settle"})
    ours.send({"do": "round"})
    assert rank.next()
    assert ours.receive() == {"at": "settled"}


def test_a_round_begins_at_once_on_a_core_that_is_as_fast_as_ever(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = channels
    core, rank = Core(monkeypatch, 0.002, 0.0025), Rounds(theirs)
    for _ in range(3):
        settle(ours, rank)
        rank.ended(1.0)
    assert core.slept == 0


def test_a_core_that_is_slowed_is_waited_for(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = channels
    core, rank = Core(monkeypatch, 0.002, 0.004, 0.004, 0.003, 0.002), Rounds(theirs)
    settle(ours, rank)
    rank.ended(1.0)
    settle(ours, rank)
    assert core.slept == 3


@pytest.mark.parametrize(("ran_s", "waited_s"), [(0.2, 0.2), (60.0, 1.0)])
def test_a_core_that_stays_slowed_is_waited_for_no_longer_than_rounds_took_nor_than_a_second(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch, ran_s: float, waited_s: float
) -> None:
    ours, theirs = channels
    core, rank = Core(monkeypatch, 0.002, 0.004), Rounds(theirs)
    settle(ours, rank)
    rank.ended(ran_s)
    before = core.now
    settle(ours, rank)
    assert core.now - before == pytest.approx(waited_s, abs=0.02)


def test_a_slow_core_that_was_never_fast_is_not_waited_for(
    channels: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = channels
    core, rank = Core(monkeypatch, 0.004), Rounds(theirs)
    rank.ended(60.0)
    settle(ours, rank)
    assert core.slept == 0


def test_there_is_no_next_round_where_the_host_wants_none(channels: tuple[Channel, Channel]) -> None:
    ours, theirs = channels
    ours.send({"do": "stop"})
    assert not Rounds(theirs).next()
