"""A verdict says how certain it is, by the range of what jobs have outside PyTorch's allocator."""

from __future__ import annotations

import types

import pytest

from vgpu.card_room import Certainty, certainty_in_room, outside_range, spare_bytes
from vgpu.command.run_summary import _room_lines

GIB = 1 << 30
LEAST, MOST = outside_range(spans_nodes=False)


@pytest.mark.parametrize(
    ("room", "found"),
    [
        (-1, Certainty.DOES_NOT_FIT),
        (LEAST - 1, Certainty.DOES_NOT_FIT),
        (LEAST, Certainty.TOO_CLOSE),
        (MOST - 1, Certainty.TOO_CLOSE),
        (MOST, Certainty.BARELY_FITS),
        (MOST + spare_bytes(20 * GIB), Certainty.FITS),
    ],
)
def test_the_room_that_is_left_decides(room: int, found: Certainty) -> None:
    assert certainty_in_room(20 * GIB, room, (LEAST, MOST)) is found


def test_jobs_over_several_nodes_may_have_more() -> None:
    assert outside_range(spans_nodes=True)[1] > MOST


@pytest.mark.parametrize(
    ("needed", "begins"),
    [
        (20 * GIB, "fits: "),
        (38 * GIB, "fits with less than 1.14 GiB to spare: "),
        (39 * GIB, "too close to call: "),
        (40 * GIB, "does not fit: "),
    ],
)
def test_a_run_says_its_verdict_first(needed: int, begins: str) -> None:
    gpu = types.SimpleNamespace(
        memory=types.SimpleNamespace(smallest_card_bytes=needed),
        card=types.SimpleNamespace(usable_bytes=40 * GIB, name="A100-40G"),
        world_size=8,
        ranks_per_node=8,
    )
    assert _room_lines(gpu)[0].startswith(
        f"{begins}the allocator needs {needed / GIB:.2f} GiB of the 40.00 of A100-40G"
    )
