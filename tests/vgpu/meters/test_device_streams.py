"""What a host knows of streams that are as late as can be: what it has waited for, and what that came after."""

from __future__ import annotations

from vgpu.meters.device_streams import QUEUED_LAUNCHES, DeviceStreams

MAIN, SIDE, OTHER = 0, 1, 2


def device(*, late: bool = True) -> tuple[DeviceStreams, list[int]]:
    passed: list[int] = []
    return DeviceStreams(late=late, settle=lambda: None, passed=passed.append), passed


def test_a_free_waits_until_the_host_has_waited_for_its_stream() -> None:
    streams, passed = device()
    first, second = streams.delay((SIDE,)), streams.delay((SIDE, OTHER))
    streams.finish_stream(MAIN)
    assert passed == []
    streams.finish_stream(SIDE)
    assert passed == [first]
    streams.finish_stream(OTHER)
    assert passed == [first, second]


def test_an_event_covers_what_came_before_it() -> None:
    streams, passed = device()
    before = streams.delay((SIDE,))
    event = streams.mark(SIDE)
    streams.delay((SIDE,))
    streams.finish(event)
    assert passed == [before]


def test_a_stream_that_waited_for_another_covers_that_ones_work_too() -> None:
    streams, passed = device()
    on_side = streams.delay((SIDE,))
    streams.wait(OTHER, streams.mark(SIDE))
    streams.delay((SIDE,))
    streams.wait(MAIN, streams.mark(OTHER))
    streams.finish_stream(MAIN)
    assert passed == [on_side]


def test_waiting_for_the_device_covers_everything() -> None:
    streams, passed = device()
    numbers = [streams.delay((stream,)) for stream in (MAIN, SIDE, OTHER)]
    streams.finish_all()
    assert passed == numbers


def test_a_host_that_asks_gets_no_and_one_that_keeps_asking_waits() -> None:
    streams, passed = device()
    number = streams.delay((SIDE,))
    event = streams.mark(SIDE)
    assert not streams.is_done(event)
    streams.mark(SIDE)  # it goes on working in between
    assert not streams.is_done(event)
    assert passed == []
    assert streams.is_done(event)
    assert passed == [number]
    streams.delay((SIDE,))
    assert [streams.is_stream_done(SIDE), streams.is_stream_done(SIDE)] == [False, True]


def test_on_a_gpu_that_is_never_behind_nothing_waits() -> None:
    streams, passed = device(late=False)
    assert streams.delay((SIDE,)) == 0
    assert streams.is_done(streams.mark(SIDE))
    streams.finish_all()
    assert passed == []


def test_a_host_waits_where_the_queue_of_a_stream_is_full() -> None:
    streams, passed = device()
    launched = [0]
    streams.launches = lambda: launched[0]
    first = streams.delay((MAIN,))
    launched[0] += QUEUED_LAUNCHES - 1
    second = streams.delay((MAIN,))
    assert passed == []  # all of them may still be in the queue
    launched[0] += 1
    streams.delay((MAIN,))
    assert passed == [first]
    streams.current = SIDE
    launched[0] += 2 * QUEUED_LAUNCHES
    streams.current = MAIN
    streams.delay((MAIN,))
    assert passed == [first]  # what other streams have launched takes no room in this one's queue
    launched[0] += QUEUED_LAUNCHES
    streams.delay((MAIN,))
    assert second in passed
