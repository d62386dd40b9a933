"""Refuses connections to other machines at once. A machine without a network may drop packets instead, and a program
would wait for minutes.

Addresses of the job stay reachable: this machine's own, and ``MASTER_ADDR``. Datagrams are not refused: connecting one
sends nothing, and is how programs find this machine's address. Only Python's own sockets are checked, not those of a
library's C or Rust code.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

from dsregress.probe.border import machine
from dsregress.probe.programs.world.resource_errors import program_place
from vgpu.replacing import Patches


class NoNetworkError(socket.gaierror, ConnectionError):
    """Has both types of error that an unreachable host raises, so that a program which can go on without a network does."""

    says_where = True
    refuses = machine.NETWORK

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{program_place()}: no connection to {host}: a run has no network, so put its files where it looks first"
        )


@contextlib.contextmanager
def local_sockets_only() -> Iterator[None]:
    """Raise NoNetworkError within the block when another machine is looked up or connected to."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def checked(original: Callable[..., Any]) -> Callable[..., object]:
        def look_up(host: Any, *args: Any, **options: Any) -> object:
            _check_host(host)
            return original(host, *args, **options)

        return look_up

    def check_stream(end: socket.socket, address: Any) -> None:
        if end.type == socket.SOCK_STREAM and end.family in (socket.AF_INET, socket.AF_INET6):
            _check_host(address[0])

    def connected(end: socket.socket, address: Any) -> None:
        check_stream(end, address)
        connect(end, address)

    def connected_ex(end: socket.socket, address: Any) -> int:
        check_stream(end, address)
        return connect_ex(end, address)

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
