"""The rendezvous of one job's ranks: a file if all run on one machine, an address if they span several."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from dsregress.probe.border.ports import held_port

_SIOCGIFADDR = 0x8915  # netdevice(7)


@contextlib.contextmanager
def rendezvous_variables(rendezvous: str, folder: Path) -> Iterator[dict[str, str]]:
    """Yield the environment variables of each rank, valid within the block. ``rendezvous`` is ``tcp://ADDRESS:PORT`` on
    the machine of rank 0, empty if all ranks are on this machine; ``folder`` is the run's."""
    if not rendezvous:
        with held_port() as port:  # for programs, which meet at an address: several jobs run here at the same time
            yield {"DSREGRESS_RENDEZVOUS": f"file://{folder}/rendezvous", "MASTER_PORT": str(port)}
        return
    address, _, port_text = rendezvous.removeprefix("tcp://").rpartition(":")
    yield {
        "DSREGRESS_RENDEZVOUS": rendezvous,
        "MASTER_ADDR": address,
        "MASTER_PORT": port_text,
        **dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), interface_to(address)),
    }


def spans_machines(environment: Mapping[str, str] = os.environ) -> bool:
    """Return True, in a rank, if other ranks of its job run on other machines."""
    return environment.get("DSREGRESS_RENDEZVOUS", "").startswith("tcp://")


def interface_to(address: str) -> str:
    """Return the network interface by which this machine reaches an IPv4 address; ``lo`` for an address of this machine.
    Raise OSError if it is unreachable."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probing:
        probing.connect((address, 9))  # sends nothing
        local_address = probing.getsockname()[0]
        for _, name in socket.if_nameindex():
            if _address_of(probing, name) == local_address:
                return name
    return "lo"  # an address of the loopback other than its first


def _address_of(any_socket: socket.socket, interface: str) -> str:
    """Return the interface's address, "" if it has none."""
    try:
        answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
    except OSError:
        return ""
    return socket.inet_ntoa(answer[20:24])
