"""A program's connections to other machines are refused at once; those of the job itself are not."""

from __future__ import annotations

import errno
import socket
import urllib.error
import urllib.request

import pytest

from dsregress.probe.border import machine
from dsregress.programs.world import local_sockets
from vgpu.error_chain import behind

# Reserved for documentation (RFC 2606, RFC 5737).
FOREIGN_NAME, FOREIGN_ADDRESS = "data.example.com", "192.0.2.7"


@pytest.mark.parametrize("host", [FOREIGN_NAME, FOREIGN_ADDRESS])
def test_another_machine_is_refused_by_name_and_by_address(host: str) -> None:
    with local_sockets.local_sockets_only(), pytest.raises(local_sockets.NoNetworkError) as raised:
        socket.create_connection((host, 443), timeout=30)
    assert f"test_local_sockets.py:{raised.traceback[0].lineno + 1}: no connection to {host}" in str(raised.value)


def test_a_socket_that_connects_without_looking_up_is_refused() -> None:
    with local_sockets.local_sockets_only(), socket.socket() as end, pytest.raises(ConnectionError):
        end.connect_ex((FOREIGN_ADDRESS, 443))


def test_a_program_that_expects_no_network_goes_on() -> None:
    with local_sockets.local_sockets_only(), pytest.raises(socket.gaierror):
        socket.gethostbyname(FOREIGN_NAME)


def test_the_refusal_is_found_behind_what_a_library_raises() -> None:
    with local_sockets.local_sockets_only(), pytest.raises(urllib.error.URLError) as raised:
        urllib.request.urlopen(f"https://{FOREIGN_NAME}/train.bin")
    refusal = behind(raised.value, local_sockets.NoNetworkError)
    assert refusal is not None
    assert FOREIGN_NAME in str(refusal)
    assert behind(ConnectionError("of another kind"), local_sockets.NoNetworkError) is None


def test_the_refusal_is_no_lost_network_whatever_a_library_makes_of_it() -> None:
    with local_sockets.local_sockets_only(), pytest.raises(local_sockets.NoNetworkError) as raised:
        socket.create_connection((FOREIGN_NAME, 443))
    librarys = RuntimeError("Max retries exceeded with url: Failed to establish a new connection")
    assert machine.of_error(librarys) == machine.NETWORK
    librarys.__cause__ = raised.value
    assert machine.of_error(librarys) == ""
    raised.value.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert machine.of_error(librarys) == machine.DISK_FULL


def test_the_jobs_own_addresses_are_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, local_sockets.local_sockets_only():
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost", socket.gethostname()):
            assert socket.getaddrinfo(host, port)
        socket.create_connection(("127.0.0.1", port)).close()
        monkeypatch.setenv("MASTER_ADDR", FOREIGN_ADDRESS)
        assert socket.getaddrinfo(FOREIGN_ADDRESS, port)


def test_a_datagram_socket_may_find_this_machines_address() -> None:
    with local_sockets.local_sockets_only(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        try:
            end.connect((FOREIGN_ADDRESS, 9))
        except OSError as error:  # of a machine without a route
            assert not isinstance(error, local_sockets.NoNetworkError)


def test_afterwards_sockets_are_as_before() -> None:
    before = (socket.getaddrinfo, socket.gethostbyname, socket.socket.connect)
    with local_sockets.local_sockets_only():
        pass
    assert (socket.getaddrinfo, socket.gethostbyname, socket.socket.connect) == before
    assert "connect" not in vars(socket.socket)
