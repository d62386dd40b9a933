"""Free ports, for processes of a job to meet at."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def held_port(address: str = "127.0.0.1") -> Iterator[int]:
    """Yield a free TCP port of this machine, reserved for those who get its number. Raise OSError if none is available.

    A bound socket that does not listen keeps the kernel from giving the port to others. A socket with SO_REUSEADDR, as
    torch's stores have, may still bind it and listen (socket(7)). Outside of Linux that is refused, so there the port is
    only found, and another program may take it.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((address, 0))
        port = int(holder.getsockname()[1])
        if sys.platform != "linux":
            holder.close()
        yield port
