"""Streams in a simulation: what is allocated where, and what the host must wait for before memory serves again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from vgpu.meters.ledger import DEVICE, FREE_DELAYED, FREE_PASSED, STREAM_SELECTED, StorageLedger, noted  # noqa: E402
from vgpu.sim import Simulation, streams  # noqa: E402


@pytest.fixture
def ledger() -> Iterator[StorageLedger]:
    with Simulation() as simulation:
        yield simulation.mode.ledger


def notes(ledger: StorageLedger) -> list[tuple[int, int]]:
    ledger.settle()
    assert ledger.trace is not None
    return [noted(key) for key, _, memory, _ in ledger.trace if key < 0 and memory == DEVICE]


def made() -> torch.Tensor:
    return torch.empty(1 << 20, device=Simulation.device)


def test_what_is_allocated_within_a_stream_is_noted(ledger: StorageLedger) -> None:
    side = streams.Stream()
    with streams.StreamContext(side):
        held = made()
    held = held, made()
    assert notes(ledger) == [(STREAM_SELECTED, side.stream_id), (STREAM_SELECTED, 0)]


@pytest.mark.parametrize("wait", ["item", "copy", "event", "stream", "device"])
def test_a_free_that_another_stream_delays_passes_where_the_host_waits(ledger: StorageLedger, wait: str) -> None:
    side = streams.Stream()
    with streams.StreamContext(side):
        gathered = made()
    gathered.record_stream(streams.current_stream())
    gathered.record_stream(side)  # its own
    del gathered
    ledger.settle()
    event = streams.Event()
    event.record()
    side.synchronize()
    delayed = [(STREAM_SELECTED, side.stream_id), (FREE_DELAYED, 1)]
    assert notes(ledger) == delayed
    if wait == "item":
        made().sum().item()
    elif wait == "copy":
        made().cpu()
    elif wait == "event":
        event.synchronize()
    elif wait == "stream":
        side.wait_stream(streams.current_stream())
        side.synchronize()
    else:
        streams.synchronize()
    assert (FREE_PASSED, 1) in notes(ledger)


def test_a_copy_that_does_not_block_waits_for_nothing(ledger: StorageLedger) -> None:
    with streams.StreamContext(streams.Stream()):
        gathered = made()
    gathered.record_stream(streams.current_stream())
    del gathered
    made().to("cpu", non_blocking=True)
    assert FREE_PASSED not in [kind for kind, _ in notes(ledger)]


def test_a_storage_that_is_resized_to_nothing_is_freed_when_its_streams_are_done(ledger: StorageLedger) -> None:
    with streams.StreamContext(streams.Stream()):
        flat = made()
    flat.record_stream(streams.current_stream())
    flat.untyped_storage().resize_(0)  # as FSDP frees
    ledger.add(flat.untyped_storage(), DEVICE)
    assert [kind for kind, _ in notes(ledger)] == [STREAM_SELECTED, FREE_DELAYED]


def test_a_stream_that_is_set_is_current_until_its_block_or_the_simulation_ends() -> None:
    side, numbers = None, []
    for _ in range(2):
        with Simulation() as simulation:
            assert streams.current_stream() is streams.default_stream()
            assert simulation.mode.ledger.streams.current == 0
            side = streams.Stream()
            numbers.append(side.stream_id)
            with streams.StreamContext(streams.Stream()):
                streams.set_stream(side)
                assert streams.current_stream() is side
            assert streams.current_stream() is streams.default_stream()
            streams.set_stream(side)
            assert simulation.mode.ledger.streams.current == side.stream_id
    assert streams.current_stream() is streams.default_stream()
    assert numbers[0] == numbers[1]


def test_a_simulation_that_ends_by_an_error_leaves_its_stream_behind() -> None:
    def fails() -> None:
        with Simulation():
            streams.StreamContext(streams.Stream()).__enter__()
            raise ValueError("in it")

    with pytest.raises(ValueError, match="^in it$"):
        fails()
    assert streams.current_stream() is streams.default_stream()


def test_work_of_the_simulation_counts_as_nobodys_even_where_it_fails() -> None:
    def fails(simulation: Simulation) -> None:
        with simulation.mode.uncounted():
            made().add_(1)
            raise ValueError("in it")

    with Simulation() as simulation:
        made()
        launches, moved = simulation.mode.op_launches, simulation.mode.moved_bytes
        with pytest.raises(ValueError, match="^in it$"):
            fails(simulation)
        assert (simulation.mode.op_launches, simulation.mode.moved_bytes) == (launches, moved)
