"""Where ranks meet."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dsregress.probe.process import meeting

RUN = Path("/runs/run-1")


def test_ranks_on_one_machine_meet_in_a_file() -> None:
    with meeting.rendezvous_variables("", RUN) as found:
        port = int(found.pop("MASTER_PORT"))  # for programs, which meet over TCP: a free one each time
        with pytest.raises(OSError, match="Address already in use"), socket.socket() as other:
            other.bind(("127.0.0.1", port))
    assert found == {"DSREGRESS_RENDEZVOUS": "file:///runs/run-1/rendezvous"}
    assert not meeting.spans_machines(found)


def test_ranks_that_span_machines_meet_at_the_address_of_the_first() -> None:
    with meeting.rendezvous_variables("tcp://127.0.0.1:29731", RUN) as found:
        pass
    assert found == {
        "DSREGRESS_RENDEZVOUS": "tcp://127.0.0.1:29731",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29731",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
    }
    assert meeting.spans_machines(found)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_this_machine_reaches_itself_by_the_loopback(address: str) -> None:
    assert meeting.interface_to(address) == "lo"
