"""Torch's own memory snapshots, replayed on a card."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import vgpu
from vgpu.allocator.snapshots import snapshot_events, snapshot_settings
from vgpu.meters.ledger import CACHE_EMPTIED, DEVICE, FREE_DELAYED, FREE_PASSED, STREAM_SELECTED, note

MIB = 1 << 20


def alloc(address: int, size: int, stream: int = 0) -> dict[str, Any]:
    return {"action": "alloc", "addr": address, "size": size, "stream": stream, "frames": []}


def free(address: int, size: int, stream: int = 0) -> list[dict[str, Any]]:
    both = {"addr": address, "size": size, "stream": stream}
    return [{"action": "free_requested", **both}, {"action": "free_completed", **both}]


def segment(action: str, size: int) -> dict[str, Any]:
    return {"action": action, "addr": 0, "size": size, "stream": 0}


def snapshot(*trace: Any, segments: Any = (), **more: Any) -> dict[str, Any]:
    return {"device_traces": [list(trace)], "segments": list(segments), **more}


def test_a_snapshot_reserves_what_the_allocators_rules_give() -> None:
    taken = snapshot(
        segment("segment_alloc", 20 * MIB), alloc(1, 4 * MIB), alloc(2, 100), *free(1, 4 * MIB), alloc(3, 30 * MIB)
    )
    (usage,) = vgpu.replay(taken).phases.values()
    assert usage.allocated_peak_bytes == 30 * MIB + 512
    assert usage.reserved_peak_bytes == (20 + 2 + 30) * MIB


def test_each_stream_keeps_its_segments_and_a_free_waits_for_the_other_streams() -> None:
    requested, completed = free(1, 4 * MIB)
    taken = snapshot(alloc(1, 4 * MIB), requested, alloc(2, 4 * MIB, stream=77), completed, alloc(3, 4 * MIB))
    size = 4 * MIB
    assert snapshot_events(taken) == [
        (1, size, DEVICE, 0),
        (note(FREE_DELAYED, 1), 0, DEVICE, 0),
        (1, -size, DEVICE, 0),
        (note(STREAM_SELECTED, 1), 0, DEVICE, 0),
        (2, size, DEVICE, 0),
        (note(FREE_PASSED, 1), 0, DEVICE, 0),
        (note(STREAM_SELECTED, 0), 0, DEVICE, 0),
        (3, size, DEVICE, 0),
    ]
    assert vgpu.replay(taken).phases[0].reserved_peak_bytes == 40 * MIB


def test_a_block_that_another_stream_still_uses_is_not_handed_out_again() -> None:
    requested, completed = free(1, 15 * MIB)
    waiting = snapshot(alloc(1, 15 * MIB), requested, alloc(2, 15 * MIB), completed)
    passed = snapshot(alloc(1, 15 * MIB), requested, completed, alloc(2, 15 * MIB))
    assert vgpu.replay(waiting).phases[0].reserved_peak_bytes == 32 * MIB
    assert vgpu.replay(passed).phases[0].reserved_peak_bytes == 16 * MIB


def test_what_was_live_before_the_history_began_comes_first() -> None:
    kept = {"address": 64, "size": 6 * MIB, "requested_size": 5 * MIB, "state": "active_allocated"}
    taken = snapshot(
        *free(16, 3 * MIB),
        segments=[{"address": 64, "device": 0, "stream": 0, "total_size": 20 * MIB, "blocks": [kept]}],
    )
    assert [event[:2] for event in snapshot_events(taken)][:2] == [(1, 3 * MIB), (2, 5 * MIB)]
    assert vgpu.replay(taken).phases[0].allocated_peak_bytes == 8 * MIB


def test_segments_that_go_back_to_the_card_are_an_emptied_cache() -> None:
    taken = snapshot(
        alloc(1, 30 * MIB), *free(1, 30 * MIB), segment("segment_free", 30 * MIB), segment("segment_free", 1)
    )
    assert [event[0] for event in snapshot_events(taken)].count(note(CACHE_EMPTIED)) == 1
    again = {**taken, "device_traces": [[*taken["device_traces"][0], alloc(2, 40 * MIB)]]}
    assert vgpu.replay(again).phases[0].reserved_peak_bytes == 40 * MIB


def test_the_options_of_a_snapshot_are_those_of_the_replay() -> None:
    options = {"expandable_segments": True, "max_split_size": 32 * MIB}
    assert snapshot_settings({"allocator_settings": options}) == vgpu.AllocatorSettings(
        expandable_segments=True, max_split_size_bytes=32 * MIB
    )
    assert snapshot_settings({"allocator_settings": {"max_split_size": -1}}) == vgpu.AllocatorSettings()
    assert snapshot_settings({}) == vgpu.AllocatorSettings()


def test_a_card_that_is_too_small_is_said_with_the_request(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(snapshot(alloc(1, 10 << 30), alloc(2, 6 << 30))))
    failure = vgpu.replay(file, card="T4").failure
    assert failure is not None
    assert (failure.requested_bytes, failure.allocated_bytes) == (6 << 30, 10 << 30)
    assert vgpu.replay(file, card="L4").failure is None


def test_a_snapshot_without_a_history_is_refused() -> None:
    with pytest.raises(
        ValueError,
        match=r"^the snapshot has no history of device 1: call torch.cuda.memory._record_memory_history\(\) first$",
    ):
        vgpu.replay(snapshot(alloc(1, 1)), device=1)
