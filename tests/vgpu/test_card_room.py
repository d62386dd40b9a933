"""A verdict says how certain it is, by the range of what jobs have outside PyTorch's allocator."""

from __future__ import annotations

import pytest

from vgpu.card_room import Certainty, certainty_in_room, outside_range, spare_bytes

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
