"""Where the ranks of one job meet: in a file, where all run on one machine; at an address, where they span several."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path

_SIOCGIFADDR = 0x8915  # netdevice(7)


def variables(rendezvous: str, folder: Path) -> dict[str, str]:
    """Environment variables of each rank. ``rendezvous`` is ``tcp://ADDRESS:PORT`` on the machine of rank 0, empty where
    all ranks are on this machine; ``folder`` is the run's."""
    if not rendezvous:
        return {"DSREGRESS_RENDEZVOUS": f"file://{folder}/rendezvous", "MASTER_PORT": str(_free_port())}
    address, _, port = rendezvous.removeprefix("tcp://").rpartition(":")
    return {
        "DSREGRESS_RENDEZVOUS": rendezvous,
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        **dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), interface_to(address)),
    }


def _free_port() -> int:
    """For programs that meet at an address: several jobs run on this machine at the same time."""
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return int(probing.getsockname()[1])


def spans_machines(environment: Mapping[str, str] = os.environ) -> bool:
    """In a rank: whether other ranks of its job run on other machines."""
    return environment.get("DSREGRESS_RENDEZVOUS", "").startswith("tcp://")


def interface_to(address: str) -> str:
    """The network interface by which this machine reaches an IPv4 address; ``lo`` for an address of this machine. Raises
    OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probing:
        probing.connect((address, 9))  # sends nothing
        local_address = probing.getsockname()[0]
        for _, name in socket.if_nameindex():
            if _address_of(probing, name) == local_address:
                return name
    return "lo"  # an address of the loopback other than its first


def _address_of(any_socket: socket.socket, interface: str) -> str:
    """The interface's address, empty where it has none."""
    try:
        answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
    except OSError:
        return ""
    return socket.inet_ntoa(answer[20:24])
