"""A program that does nothing but ask for a server that nobody starts is ended in seconds, with the place."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from dsregress.programs.world import local_sockets
from dsregress.programs.world.absent_servers import AbsentServers, WaitsInVain

ADDRESS = ("127.0.0.1", 59875)


class Clock:
    now_s, computed_s = 0.0, 0.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def servers(clock: Clock) -> AbsentServers:
    return AbsentServers(lambda: clock.now_s, lambda: clock.computed_s)


def ask(servers: AbsentServers, clock: Clock, times: int, each_s: float, computed_s: float = 0.0) -> None:
    for _ in range(times):
        servers.refused(ADDRESS)
        clock.now_s += each_s
        clock.computed_s += computed_s


def test_a_program_that_polls_is_ended_after_seconds(servers: AbsentServers, clock: Clock) -> None:
    with pytest.raises(WaitsInVain) as raised:
        ask(servers, clock, 20, each_s=1.0)
    assert clock.now_s == 5
    assert str(raised.value) == (
        f"test_absent_servers.py:{ask.__code__.co_firstlineno + 2} waits for localhost:59875, and the launch line starts no "
        "server there: leave out what asks it"
    )


def test_a_program_that_computes_in_between_goes_on(servers: AbsentServers, clock: Clock) -> None:
    ask(servers, clock, 20, each_s=2.0, computed_s=1.9)


def test_a_few_tries_at_once_are_no_wait(servers: AbsentServers, clock: Clock) -> None:
    ask(servers, clock, 20, each_s=0.1)


def test_a_server_that_answers_begins_anew(servers: AbsentServers, clock: Clock) -> None:
    for _ in range(5):
        ask(servers, clock, 4, each_s=1.0)
        servers.connected(("localhost", ADDRESS[1]))


def test_a_process_that_the_program_started_may_become_the_server(servers: AbsentServers, clock: Clock) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(WaitsInVain):
            ask(servers, clock, 100, each_s=1.0)
    finally:
        process.kill()
        process.wait()
    assert clock.now_s == 60


def test_another_thread_may_wait(servers: AbsentServers, clock: Clock) -> None:
    thread = threading.Thread(target=ask, args=(servers, clock, 20, 1.0))
    thread.start()
    thread.join()
    assert clock.now_s == 20


def test_a_program_that_catches_everything_is_ended_where_it_sleeps(servers: AbsentServers, clock: Clock) -> None:
    def poll() -> None:
        try:
            ask(servers, clock, 1, each_s=0.0)
        except:  # noqa: E722 -- as programs do
            clock.now_s += 1

    def run() -> None:
        ask(servers, clock, 5, each_s=1.0)
        while True:
            poll()
            time.sleep(1)

    began = time.monotonic()
    with pytest.raises(WaitsInVain, match="waits for localhost:59875"):
        run()
    assert time.monotonic() - began < 30


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(params=["connect", "connect_ex"])
def connect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], object]]:
    address = ("127.0.0.1", _closed_port())
    with local_sockets.local_sockets_only(), socket.socket() as end:
        yield lambda: getattr(end, request.param)(address)


def test_sockets_report_what_is_refused(connect: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(AbsentServers, "refused", lambda servers, address: told.append(address[1]))
    try:
        assert connect()
    except ConnectionRefusedError:
        pass
    assert len(told) == 1
