from __future__ import annotations

import socket
import sys

import pytest

from dsregress.probe.border.ports import held_port

ADDRESS = "127.0.0.1"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port cannot be held for another")
def test_a_port_is_kept_from_others_and_open_to_those_who_were_told_it() -> None:
    with held_port() as port, socket.socket() as other, socket.socket() as ours, socket.socket() as client:
        with pytest.raises(OSError, match="Address already in use"):
            other.bind((ADDRESS, port))
        with pytest.raises(ConnectionRefusedError):
            client.connect((ADDRESS, port))
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ours.bind((ADDRESS, port))
        ours.listen()
        with socket.create_connection((ADDRESS, port)):
            pass
        with held_port() as another:
            assert another != port


def test_a_port_is_free_again_afterwards() -> None:
    with held_port() as port:
        pass
    with socket.socket() as other:
        other.bind((ADDRESS, port))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port cannot be held for another")
@pytest.mark.parametrize("use_libuv", [False, True])
def test_the_store_of_torch_listens_at_a_port_that_is_held(use_libuv: bool) -> None:
    distributed = pytest.importorskip("torch.distributed")
    with held_port() as port:
        store = distributed.TCPStore(ADDRESS, port, 1, is_master=True, use_libuv=use_libuv)
        store.set("key", "value")
        assert distributed.TCPStore(ADDRESS, port, 1, is_master=False, use_libuv=use_libuv).get("key") == b"value"
