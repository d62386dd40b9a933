"""Free ports, for processes of a job to meet at."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def held_port(address: str = "127.0.0.1") -> Iterator[int]:
    """Yield a free TCP port of this machine, which is kept for whoever is told its number. Raise OSError.

    A socket that is bound to it, and does not listen, keeps the kernel from giving it to others. One that sets
    SO_REUSEADDR, as torch's stores do, may be bound beside it and listen (socket(7)). Outside of Linux that is refused, so
    there the port is only found, and another program may take it.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((address, 0))
        port = int(holder.getsockname()[1])
        if sys.platform != "linux":
            holder.close()
        yield port
