"""The allocator's model against figures computed by hand from PyTorch's rules, and what must hold for any program."""

from __future__ import annotations

import itertools
import time
from random import Random

import pytest

pytest.importorskip("hypothesis")  # not in a measured environment
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpu.allocator.model import AllocatorSettings, CachingAllocator, OutOfMemoryError
from vgpu.allocator.replay import replay
from vgpu.meters.ledger import (
    CACHE_EMPTIED,
    DEVICE,
    FREE_DELAYED,
    FREE_PASSED,
    HOST,
    STREAM_SELECTED,
    Event,
    note,
)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def allocator(**options: object) -> CachingAllocator:
    return CachingAllocator(AllocatorSettings(**options))  # type: ignore[arg-type]


def after(*requests: int, **options: object) -> tuple[int, int]:
    """(reserved, allocated) once all of the requests are held."""
    made = allocator(**options)
    for key, nbytes in enumerate(requests):
        made.allocate(key, nbytes)
    return made.reserved_bytes, made.allocated_bytes


# -- sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requested", "reserved", "allocated"),
    [
        (1, 2 * MIB, 512),
        (512, 2 * MIB, 512),
        (513, 2 * MIB, 1024),
        (1 * MIB, 2 * MIB, 1 * MIB),
        (1 * MIB + 1, 20 * MIB, 1 * MIB + 512),
        (10 * MIB - 512, 20 * MIB, 10 * MIB - 512),
        (10 * MIB - 1, 10 * MIB, 10 * MIB),  # rounded up to 512 bytes first
        (10 * MIB, 10 * MIB, 10 * MIB),
        (10 * MIB + 1, 12 * MIB, 10 * MIB + 512),
        (11 * MIB, 12 * MIB, 12 * MIB),  # 1 MiB is left over: too little to cut off
        (11 * MIB - 512, 12 * MIB, 11 * MIB - 512),  # more than 1 MiB: cut off
        (1001 * MIB, 1002 * MIB, 1002 * MIB),
    ],
)
def test_one_request_takes_the_segment_that_the_rules_say(requested: int, reserved: int, allocated: int) -> None:
    assert after(requested) == (reserved, allocated)


def test_small_requests_share_a_segment_of_2_mib_until_it_is_full() -> None:
    assert after(*[512] * 4096) == (2 * MIB, 2 * MIB)
    assert after(*[512] * 4097) == (4 * MIB, 2 * MIB + 512)


def test_requests_under_10_mib_share_a_segment_of_20_mib() -> None:
    assert after(9 * MIB, 9 * MIB) == (20 * MIB, 18 * MIB)
    assert after(9 * MIB, 9 * MIB, 2 * MIB) == (20 * MIB, 20 * MIB)
    assert after(9 * MIB, 9 * MIB, 2 * MIB + 512) == (40 * MIB, 20 * MIB + 512)


def test_a_remainder_of_1_mib_is_not_cut_off_a_large_block() -> None:
    assert after(19 * MIB, 1 * MIB) == (20 * MIB + 2 * MIB, 20 * MIB + 1 * MIB)
    made = allocator()
    made.allocate(1, 20 * MIB)
    made.free(1)
    made.allocate(2, 19 * MIB)
    assert (made.reserved_bytes, made.allocated_bytes) == (20 * MIB, 20 * MIB)


def test_small_and_large_pool_do_not_lend_to_each_other() -> None:
    made = allocator()
    made.allocate(1, 20 * MIB)
    made.free(1)
    made.allocate(2, 512)
    assert made.reserved_bytes == 22 * MIB


# -- reuse -------------------------------------------------------------------------------------------------------------


def test_what_was_freed_is_handed_out_again_before_the_card_is_asked() -> None:
    made = allocator()
    for key in range(100):
        made.allocate(key, 64 * MIB)
        made.free(key)
    assert made.reserved_bytes == 64 * MIB


def test_the_smallest_block_that_is_large_enough_is_taken() -> None:
    made = allocator()
    for key, size in ((1, 40 * MIB), (2, 24 * MIB), (3, 32 * MIB)):
        made.allocate(key, size)
    for key in (1, 2, 3):
        made.free(key)
    made.allocate(4, 23 * MIB)
    made.allocate(5, 30 * MIB)
    made.allocate(6, 40 * MIB)
    assert made.reserved_bytes == 96 * MIB  # 4 in the 24, 5 in the 32, 6 in the 40


def test_free_neighbours_become_one_block_again() -> None:
    made = allocator()
    made.allocate(1, 90 * MIB)
    made.free(1)
    for key in (2, 3, 4):
        made.allocate(key, 30 * MIB)
    for key in (2, 4, 3):
        made.free(key)
    made.allocate(5, 90 * MIB)
    assert made.reserved_bytes == 90 * MIB


def test_neighbours_that_are_held_apart_cannot_serve_a_larger_request() -> None:
    made = allocator()
    made.allocate(1, 90 * MIB)
    made.free(1)
    for key in (2, 3, 4):
        made.allocate(key, 30 * MIB)
    made.free(2)
    made.free(4)
    made.allocate(5, 62 * MIB)
    assert made.reserved_bytes == 152 * MIB
    usage = made.usage()
    assert usage.allocated_peak_bytes == 92 * MIB
    assert usage.fragmentation_bytes == 60 * MIB


def test_a_storage_that_grows_has_its_new_block_before_the_old_one_goes() -> None:
    made = allocator()
    made.book(1, 20 * MIB)
    made.book(1, 10 * MIB)
    assert made.allocated_bytes == 30 * MIB
    assert made.usage().allocated_peak_bytes == 50 * MIB
    made.book(1, -30 * MIB)
    assert made.allocated_bytes == 0
    made.book(1, 0)  # a storage that is empty when it dies


# -- a full card -------------------------------------------------------------------------------------------------------


def test_wholly_free_segments_go_back_to_a_full_card_before_a_request_fails() -> None:
    made = allocator(card_bytes=100 * MIB)
    made.allocate(1, 60 * MIB)
    made.free(1)
    made.allocate(2, 70 * MIB)
    assert (made.reserved_bytes, made.retries) == (70 * MIB, 1)


def test_a_segment_with_one_block_in_use_does_not_go_back() -> None:
    made = allocator(card_bytes=100 * MIB)
    made.allocate(1, 60 * MIB)
    made.free(1)
    made.allocate(2, 12 * MIB)  # sits in the 60 MiB segment
    with pytest.raises(OutOfMemoryError, match="tried to allocate 73400320 bytes"):
        made.allocate(3, 70 * MIB)
    made.allocate(4, 40 * MIB)  # the rest of the segment is still good
    assert made.reserved_bytes == 60 * MIB


def test_blocks_over_the_split_limit_are_neither_split_nor_wasted_on_small_requests() -> None:
    made = allocator(max_split_size_bytes=64 * MIB)
    made.allocate(1, 100 * MIB)
    made.free(1)
    made.allocate(2, 30 * MIB)  # under the limit: not from the oversize block
    assert made.reserved_bytes == 130 * MIB
    made.allocate(3, 90 * MIB)  # over it, within 20 MiB of the block: all of it
    assert (made.reserved_bytes, made.allocated_bytes) == (130 * MIB, 130 * MIB)
    made.free(3)
    made.allocate(4, 80 * MIB)  # 20 MiB less than the block: too wasteful
    assert made.reserved_bytes == 210 * MIB


def test_of_the_oversize_blocks_only_as_many_go_back_as_a_request_needs() -> None:
    made = allocator(max_split_size_bytes=64 * MIB, card_bytes=300 * MIB)
    for key, size in ((1, 100 * MIB), (2, 150 * MIB)):
        made.allocate(key, size)
    for key in (1, 2):
        made.free(key)
    made.allocate(3, 70 * MIB)  # needs 20 MiB: the smaller of the two goes
    assert (made.reserved_bytes, made.retries) == (220 * MIB, 0)


def test_a_program_that_empties_the_cache_reserves_less_from_then_on() -> None:
    trace: list[Event] = [(1, 60 * MIB, DEVICE, 1), (2, 12 * MIB, DEVICE, 1), (1, -60 * MIB, DEVICE, 1)]
    trace += [(note(CACHE_EMPTIED), 0, DEVICE, 1), (3, 30 * MIB, DEVICE, 2)]
    result = replay(trace, AllocatorSettings())
    assert (result.phases[1].reserved_peak_bytes, result.phases[2].reserved_peak_bytes) == (72 * MIB, 42 * MIB)
    assert result.retries == 0


def test_a_replay_names_the_event_that_a_card_cannot_serve() -> None:
    trace: list[Event] = [(1, 60 * MIB, DEVICE, 1), (2, 999 * GIB, HOST, 1), (3, 30 * MIB, DEVICE, 2)]
    trace += [(4, 30 * MIB, DEVICE, 2), (5, 30 * MIB, DEVICE, 3)]
    result = replay(trace, AllocatorSettings(card_bytes=100 * MIB))
    assert result.failure is not None
    assert (result.failure.phase, result.failure.event, result.failure.requested_bytes) == (2, 3, 30 * MIB)
    assert result.failure.reserved_bytes == result.failure.allocated_bytes == 90 * MIB
    assert {phase: usage.reserved_peak_bytes for phase, usage in result.phases.items()} == {1: 60 * MIB, 2: 90 * MIB}
    assert replay(trace, AllocatorSettings(card_bytes=150 * MIB)).failure is None


def test_a_phase_starts_from_what_is_reserved_and_not_from_zero() -> None:
    trace: list[Event] = [(1, 60 * MIB, DEVICE, 1), (1, -60 * MIB, DEVICE, 1), (2, 10 * MIB, DEVICE, 2)]
    result = replay(trace, AllocatorSettings())
    assert result.phases[2].reserved_peak_bytes == 60 * MIB
    assert result.phases[2].allocated_peak_bytes == 10 * MIB
    assert result.phases[2].fragmentation_bytes == 50 * MIB


# -- expandable segments -----------------------------------------------------------------------------------------------


def test_expandable_segments_grow_by_pages_of_20_and_2_mib() -> None:
    assert after(30 * MIB, expandable_segments=True) == (40 * MIB, 30 * MIB)
    assert after(30 * MIB, 10 * MIB, expandable_segments=True) == (40 * MIB, 40 * MIB)
    assert after(512, expandable_segments=True) == (2 * MIB, 512)
    assert after(1001 * MIB, expandable_segments=True) == (1020 * MIB, 1001 * MIB)


def test_an_expandable_segment_serves_what_slivers_of_fixed_segments_cannot() -> None:
    """The case of PyTorch's own note: a batch that grows by one, whose tensors fit none of the old segments."""

    def peak(**options: object) -> int:
        made = allocator(**options)
        for batch in range(10):
            for layer in range(10):
                made.allocate(layer, (100 + 10 * batch) * MIB)
            for layer in range(10):
                made.free(layer)
        return made.reserved_peak_bytes

    assert peak(expandable_segments=True) == 1900 * MIB
    assert peak() == sum(10 * (100 + 10 * batch) * MIB for batch in range(10))


def test_pages_that_are_wholly_free_go_back_from_within_an_expandable_segment() -> None:
    made = allocator(expandable_segments=True, card_bytes=200 * MIB)
    for key in range(5):
        made.allocate(key, 40 * MIB)
    for key in (0, 2):
        made.free(key)
    made.allocate(5, 80 * MIB)  # 40 + 40 are free, but apart: their pages move to the end
    assert (made.reserved_bytes, made.allocated_bytes, made.retries) == (200 * MIB, 200 * MIB, 1)
    with pytest.raises(OutOfMemoryError):
        made.allocate(6, 2 * MIB)


# -- any program -------------------------------------------------------------------------------------------------------

SIZES = st.one_of(st.integers(1, 4 * KIB), st.integers(1, 3 * MIB), st.integers(1, 64 * MIB))
STEPS = st.lists(st.one_of(SIZES, st.integers(-40, -1)), max_size=120)  # a size to allocate, or which one to free
OPTIONS = st.builds(
    AllocatorSettings,
    expandable_segments=st.booleans(),
    max_split_size_bytes=st.sampled_from((None, 20 * MIB, 40 * MIB)),
    card_bytes=st.sampled_from((None, 100 * MIB, 400 * MIB)),
)


def as_trace(steps: list[int]) -> list[Event]:
    held: list[tuple[int, int]] = []
    trace: list[Event] = []
    for key, step in enumerate(steps):
        if step > 0:
            held.append((key, step))
            trace.append((key, step, DEVICE, 1))
        elif held:
            freed, size = held.pop(-step % len(held))
            trace.append((freed, -size, DEVICE, 1))
    return trace


@given(STEPS, OPTIONS)
@settings(deadline=None, max_examples=200)
def test_no_two_blocks_overlap_and_nothing_is_lost(steps: list[int], options: AllocatorSettings) -> None:
    made = CachingAllocator(options)
    held: dict[int, int] = {}
    for key, nbytes, _, _ in as_trace(steps):
        if nbytes < 0 and key not in held:
            continue  # it could not be had in the first place
        try:
            made.book(key, nbytes)
        except OutOfMemoryError:
            continue
        held[key] = nbytes
        if nbytes < 0:
            del held[key]
        blocks = sorted(made.blocks(), key=lambda block: block.start)
        assert all(one.start + one.size <= other.start for one, other in itertools.pairwise(blocks))
        assert made.allocated_bytes == sum(block.size for block in blocks) * 512 >= sum(held.values())
        assert made.reserved_bytes >= made.allocated_bytes
        assert options.card_bytes is None or made.reserved_bytes <= options.card_bytes
    for key in held:
        made.free(key)
    assert made.allocated_bytes == 0
    made.empty_cache()
    assert made.reserved_bytes == 0


@given(STEPS, OPTIONS)
@settings(deadline=None, max_examples=100)
def test_a_replay_is_the_same_every_time(steps: list[int], options: AllocatorSettings) -> None:
    trace = as_trace(steps)
    assert replay(trace, options) == replay(trace, options)


@given(STEPS, st.booleans())
@settings(deadline=None, max_examples=100)
def test_a_card_as_large_as_the_unlimited_peak_is_enough_and_never_needs_to_clear_its_cache(
    steps: list[int], expandable: bool
) -> None:
    trace = as_trace(steps)
    unlimited = replay(trace, AllocatorSettings(expandable_segments=expandable))
    peak = max((usage.reserved_peak_bytes for usage in unlimited.phases.values()), default=0)
    limited = replay(trace, AllocatorSettings(expandable_segments=expandable, card_bytes=peak))
    assert limited == unlimited


def test_a_step_of_a_large_model_is_replayed_in_well_under_two_seconds() -> None:
    random = Random(776)
    steps = [random.choice((random.randrange(1, 64 * MIB), -random.randrange(1, 500))) for _ in range(100_000)]
    trace = as_trace(steps)
    start = time.process_time()
    replay(trace, AllocatorSettings())
    assert time.process_time() - start < 2.0


def test_a_freed_block_serves_its_own_stream_alone() -> None:
    allocator = CachingAllocator()
    allocator.allocate(1, 30 * MIB)
    allocator.free(1)
    allocator.book(note(STREAM_SELECTED, 1), 0)
    allocator.book(2, 30 * MIB)
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (30 * MIB, 60 * MIB)
    allocator.book(note(STREAM_SELECTED, 0), 0)
    allocator.book(3, 30 * MIB)
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (60 * MIB, 60 * MIB)
    copy = allocator.on_card(100 * MIB)
    for one in (allocator, copy):
        one.free(2)  # on whichever stream it is released
        one.book(note(STREAM_SELECTED, 1), 0)
        one.book(4, 30 * MIB)
        assert one.reserved_bytes == 60 * MIB


def test_expandable_segments_belong_to_a_stream_too() -> None:
    allocator = CachingAllocator(AllocatorSettings(expandable_segments=True))
    allocator.allocate(1, 40 * MIB)
    allocator.free(1)
    allocator.book(note(STREAM_SELECTED, 1), 0)
    allocator.book(2, 40 * MIB)
    assert allocator.reserved_bytes == 80 * MIB
    allocator.empty_cache()
    assert allocator.reserved_bytes == 40 * MIB


def test_a_full_card_takes_back_what_other_streams_have_cached() -> None:
    allocator = CachingAllocator(AllocatorSettings(card_bytes=100 * MIB))
    allocator.allocate(1, 60 * MIB)
    allocator.free(1)
    allocator.book(note(STREAM_SELECTED, 1), 0)
    allocator.book(2, 60 * MIB)
    assert (allocator.retries, allocator.reserved_bytes) == (1, 60 * MIB)


@pytest.mark.parametrize(("late", "reserved"), [(False, 30), (True, 60)])
def test_what_another_stream_still_uses_is_free_for_none_until_that_has_passed(late: bool, reserved: int) -> None:
    allocator = CachingAllocator(AllocatorSettings(late=late))
    allocator.book(1, 30 * MIB)
    allocator.book(note(FREE_DELAYED, 7), 0)
    allocator.book(1, -30 * MIB)
    assert allocator.allocated_bytes == 0  # by its owner's account it is free
    allocator.book(2, 30 * MIB)
    assert allocator.reserved_bytes == reserved * MIB
    allocator.book(note(FREE_PASSED, 7), 0)
    allocator.book(3, 30 * MIB)
    assert allocator.reserved_bytes == 60 * MIB


def test_a_full_card_waits_for_what_other_streams_use() -> None:
    allocator = CachingAllocator(AllocatorSettings(late=True, card_bytes=100 * MIB))
    allocator.book(1, 60 * MIB)
    allocator.book(note(FREE_DELAYED, 1), 0)
    allocator.book(1, -60 * MIB)
    copy = allocator.on_card(100 * MIB)
    for one in (allocator, copy):
        one.book(2, 60 * MIB)
        assert (one.retries, one.reserved_bytes) == (1, 60 * MIB)
        one.book(note(FREE_PASSED, 1), 0)  # it has been waited for


def test_a_resized_storage_gives_back_a_block_that_another_stream_may_use() -> None:
    allocator = CachingAllocator(AllocatorSettings(late=True))
    allocator.book(1, 30 * MIB)
    allocator.book(note(FREE_DELAYED, 1), 0)
    allocator.book(1, 10 * MIB)  # from 30 to 40
    allocator.book(2, 30 * MIB)
    assert (allocator.allocated_bytes, allocator.reserved_bytes) == (70 * MIB, 100 * MIB)
