"""Messages over a socket pair, one JSON object a line: between the server and a cell's process, and between that process
and its ranks."""

from __future__ import annotations

import json
import select
import socket
from typing import Any

from dsregress.probe.border.encoding import encode

Message = dict[str, Any]


class Closed(Exception):
    """The other side has closed the channel or ended."""


class Channel:
    """One end of the pair. Messages are small; large data travels in files."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._read = b""

    def fileno(self) -> int:
        """Return the socket's file descriptor, for ``select``."""
        return self._end.fileno()

    def close(self) -> None:
        """Close the channel."""
        self._end.close()

    def send(self, message: Message) -> None:
        """Send a message. Raise Closed if the other side is gone."""
        try:
            self._end.sendall(encode(message).encode() + b"\n")
        except OSError as error:
            raise Closed from error

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """Return the next message; None if none came within the timeout. Raise Closed if the other side is gone."""
        while b"\n" not in self._read:
            if not select.select([self._end], [], [], timeout_s)[0]:
                return None
            try:
                more = self._end.recv(65536)
            except OSError as error:
                raise Closed from error
            if not more:
                raise Closed
            self._read += more
        line, self._read = self._read.split(b"\n", 1)
        message: Message = json.loads(line)
        return message

    @property
    def pending(self) -> bool:
        """Return True if a whole message is in the buffer, which ``select`` does not see."""
        return b"\n" in self._read


def pair() -> tuple[Channel, Channel]:
    """Return the two ends of a new channel."""
    first, second = socket.socketpair()
    return Channel(first), Channel(second)
