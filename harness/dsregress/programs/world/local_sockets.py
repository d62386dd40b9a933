"""Refuses connections to other machines at once. A machine without a network may drop packets instead, and a program
would wait for minutes.

Addresses of the job stay reachable: this machine's own, and ``MASTER_ADDR``. Datagrams are not refused: connecting one
sends nothing, and is how programs find this machine's address. Only Python's own sockets are checked, not those of a
library's C or Rust code.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

from dsregress.probe.border import machine
from dsregress.programs.world.absent_servers import AbsentServers
from dsregress.programs.world.resource_errors import program_place
from vgpu.replacing import Patches


class NoNetworkError(socket.gaierror, ConnectionError):
    """Has both types of error that an unreachable host raises, so that a program which can go on without a network does."""

    says_where = True
    refuses = machine.NETWORK

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"{program_place()}: no connection to {host}: a run has no network, so put its files where it looks first"
        )


@contextlib.contextmanager
def local_sockets_only() -> Iterator[None]:
    """Raise NoNetworkError within the block when another machine is looked up or connected to, WaitsInVain when the program
    does nothing but wait for a server of this machine."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def checked(original: Callable[..., Any]) -> Callable[..., object]:
        def look_up(host: object, *args: object, **options: object) -> object:
            _check_host(host)
            return original(host, *args, **options)

        return look_up

    servers = AbsentServers()

    def is_stream(end: socket.socket) -> bool:
        return end.type == socket.SOCK_STREAM and end.family in (socket.AF_INET, socket.AF_INET6)

    def connected(end: socket.socket, address: Any) -> None:
        if not is_stream(end):
            connect(end, address)
            return
        _check_host(address[0])
        try:
            connect(end, address)
        except ConnectionRefusedError:
            servers.refused(address)
            raise
        servers.connected(address)

    def connected_ex(end: socket.socket, address: Any) -> int:
        if not is_stream(end):
            return connect_ex(end, address)
        _check_host(address[0])
        code = connect_ex(end, address)
        if code == errno.ECONNREFUSED:
            servers.refused(address)
        elif not code:
            servers.connected(address)
        return code

    with Patches("no connection to other machines") as patches:
        for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
            patches.replace(socket, name, checked(getattr(socket, name)))
        patches.replace(socket.socket, "connect", connected)
        patches.replace(socket.socket, "connect_ex", connected_ex)
        yield


def _check_host(host: object) -> None:
    name = host.decode("ascii", "replace") if isinstance(host, (bytes, bytearray)) else host
    if isinstance(name, str) and name and not _is_own(name):
        raise NoNetworkError(name)


def _is_own(host: str) -> bool:
    if host in ("localhost", "<broadcast>", socket.gethostname(), os.environ.get("MASTER_ADDR")):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified or _can_bind(host, address.version)


def _can_bind(host: str, version: int) -> bool:
    """Return True if a numeric address is one of this machine's."""
    with socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as end:
        try:
            end.bind((host, 0))
        except OSError:
            return False
    return True
