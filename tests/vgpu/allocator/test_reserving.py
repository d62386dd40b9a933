"""The smallest card of a run, against a replay on every card around it."""

from __future__ import annotations

from random import Random

import pytest

from vgpu.allocator.model import AllocatorSettings
from vgpu.allocator.replay import replay
from vgpu.allocator.reserving import Reserving
from vgpu.meters.ledger import CACHE_EMPTIED, DEVICE, FREE_DELAYED, FREE_PASSED, HOST, Event, note

MIB = 1 << 20


def program(seed: int, events: int = 600) -> list[list[Event]]:
    """Three phases of a program that allocates more than it frees."""
    random = Random(seed)
    held: list[tuple[int, int]] = []
    phases: list[list[Event]] = []
    for phase in (1, 2, 3):
        trace: list[Event] = []
        for _ in range(events):
            if held and random.random() < 0.48:
                key, size = held.pop(random.randrange(len(held)))
                trace.append((key, -size, DEVICE, phase))
            else:
                key, size = (
                    random.getrandbits(60),
                    random.choice((700, 300_000, 3 * MIB, random.randrange(1, 90 * MIB))),
                )
                held.append((key, size))
                trace.append((key, size, DEVICE, phase))
        phases.append(trace)
    return phases


@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_smallest_card_is_enough_and_a_slightly_smaller_one_is_not(seed: int, expandable: bool) -> None:
    settings = AllocatorSettings(expandable_segments=expandable)
    trace: list[Event] = []
    reserving = Reserving(trace, settings)
    for number, phase in enumerate(program(seed), start=1):
        reserving.begin()
        trace.extend(phase)
        reserving.follow()
        unlimited = replay(trace, settings).phases
        assert reserving.reserved_peak_bytes == unlimited[number].reserved_peak_bytes
        smallest = reserving.smallest_card_bytes
        on_it = AllocatorSettings(expandable_segments=expandable, card_bytes=smallest)
        assert replay(trace, on_it).failure is None
        assert max(u.allocated_peak_bytes for u in unlimited.values()) <= smallest
        assert smallest <= max(u.reserved_peak_bytes for u in unlimited.values())
        below = AllocatorSettings(expandable_segments=expandable, card_bytes=reserving.too_small_bytes)
        assert replay(trace, below).failure is not None
        assert smallest - reserving.too_small_bytes <= max(2 * MIB, smallest / 500)


@pytest.mark.parametrize("seed", range(4))
def test_the_smallest_card_is_enough_whatever_the_timing_of_streams(seed: int) -> None:
    random = Random(seed)
    trace: list[Event] = []
    reserving = Reserving(trace, AllocatorSettings(), stride=50)
    waiting: list[int] = []
    for phase in program(seed):
        reserving.begin()
        for event in phase:
            if event[1] < 0 and random.random() < 0.3:
                waiting.append(len(trace) + 1)
                trace.append((note(FREE_DELAYED, waiting[-1]), 0, DEVICE, event[3]))
            trace.append(event)
            if waiting and random.random() < 0.02:
                trace += [(note(FREE_PASSED, number), 0, DEVICE, event[3]) for number in waiting]
                waiting.clear()
        reserving.follow()
        assert reserving.late_reserved_peak_bytes >= reserving.reserved_peak_bytes
        smallest = reserving.smallest_card_bytes
        for late in (False, True):
            assert replay(trace, AllocatorSettings(late=late, card_bytes=smallest)).failure is None
        below = [AllocatorSettings(late=late, card_bytes=reserving.too_small_bytes) for late in (False, True)]
        assert any(replay(trace, settings).failure for settings in below)


@pytest.mark.parametrize("max_split_size_bytes", [None, 25 * MIB])
@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_beginning_from_a_state_comes_to_the_same_as_from_the_start(
    seed: int, expandable: bool, max_split_size_bytes: int | None
) -> None:
    settings = AllocatorSettings(expandable_segments=expandable, max_split_size_bytes=max_split_size_bytes)
    trace: list[Event] = []
    from_states, from_start = Reserving(trace, settings, stride=37), Reserving(trace, settings, stride=10**9)
    for phase in program(seed):
        found = []
        for reserving in (from_states, from_start):
            reserving.begin()
        trace.extend(phase)
        for reserving in (from_states, from_start):
            reserving.follow()
            found.append((reserving.smallest_card_bytes, reserving.too_small_bytes, reserving.needed_bytes))
        assert found[0] == found[1]


@pytest.mark.parametrize("max_split_size_bytes", [None, 25 * MIB])
@pytest.mark.parametrize("seed", range(4))
def test_what_a_trial_tells_of_other_cards_is_what_they_do(seed: int, max_split_size_bytes: int | None) -> None:
    settings = AllocatorSettings(max_split_size_bytes=max_split_size_bytes)
    trace = [event for phase in program(seed) for event in phase]
    reserving = Reserving(trace, settings)
    reserving.follow()
    for percent in range(80, 105, 3):
        tried = reserving._tried(reserving.smallest_card_bytes * percent // 100)
        most = tried.refused_bytes or 2 * tried.reserved_bytes
        for card_bytes in (tried.reserved_bytes, (tried.reserved_bytes + most) // 2, most - 1):
            on_it = replay(trace, AllocatorSettings(max_split_size_bytes=max_split_size_bytes, card_bytes=card_bytes))
            assert tried.tells_of(card_bytes)
            assert (on_it.failure is None) == (tried.allocators is not None)
            assert tried.allocators is None or tried.allocators.prompt.retries == on_it.retries
        assert not tried.tells_of(tried.reserved_bytes - 1)
        assert tried.refused_bytes is None or not tried.tells_of(tried.refused_bytes)


def test_a_phase_that_asks_for_less_than_one_before_needs_what_it_hands_out() -> None:
    trace: list[Event] = []
    reserving = Reserving(trace, AllocatorSettings())
    reserving.begin()
    trace += [(1, 60 * MIB, DEVICE, 1), (1, -60 * MIB, DEVICE, 1)]
    reserving.follow()
    assert reserving.needed_bytes == 60 * MIB
    reserving.begin()
    trace.append((2, 20 * MIB, DEVICE, 2))
    reserving.follow()
    assert reserving.needed_bytes == 20 * MIB
    assert reserving.smallest_card_bytes == reserving.reserved_peak_bytes == 60 * MIB


def test_expandable_segments_whose_addresses_are_in_pieces_need_more_than_was_reserved() -> None:
    settings = AllocatorSettings(expandable_segments=True)
    sizes = [(1, 310), (2, 150), (3, 150), (1, -310), (4, 33)]
    trace: list[Event] = [(key, size * MIB, DEVICE, 1) for key, size in sizes]
    trace += [(note(CACHE_EMPTIED), 0, DEVICE, 1), (5, 310 * MIB, DEVICE, 1)]
    reserving = Reserving(trace, settings)
    reserving.follow()
    assert reserving.smallest_card_bytes > reserving.reserved_peak_bytes
    for card_bytes, fails in ((reserving.smallest_card_bytes, False), (reserving.too_small_bytes, True)):
        on_it = replay(trace, AllocatorSettings(expandable_segments=True, card_bytes=card_bytes))
        assert (on_it.failure is not None) == fails
    assert reserving.smallest_card_bytes - reserving.too_small_bytes <= 2 * MIB


def test_host_memory_needs_no_card() -> None:
    trace: list[Event] = [(1, 10**12, HOST, 1)]
    reserving = Reserving(trace, AllocatorSettings())
    reserving.follow()
    assert (reserving.reserved_peak_bytes, reserving.smallest_card_bytes) == (0, 0)


def test_where_only_one_segment_is_needed_the_card_is_that_segment() -> None:
    trace: list[Event] = [(1, 512, DEVICE, 1)]
    reserving = Reserving(trace, AllocatorSettings())
    reserving.follow()
    assert reserving.smallest_card_bytes == 2 * MIB
