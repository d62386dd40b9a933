"""Bytes inside nodes and between them, by which ranks a collective was of."""

from __future__ import annotations

import pytest

from dsregress.advice.gpus.traffic import ranks_in, traffic
from vgpu.figures import PhaseReading

GIB = 1 << 30


def sent(collective: str, size_gib: int) -> tuple[float, float]:
    """GiB inside nodes of 8 and between them."""
    found = traffic([PhaseReading(groups={collective: [1, size_gib * GIB]})], 8)
    assert found is not None
    return found.inside_bytes / GIB, found.between_bytes / GIB


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("0-3", (0, 1, 2, 3)), ("0-24/8", (0, 8, 16, 24)), ("0,3,5", (0, 3, 5)), ("7", (7,))],
)
def test_groups_as_the_probe_spells_them(text: str, ranks: tuple[int, ...]) -> None:
    assert ranks_in(text) == ranks


def test_a_group_within_a_node_sends_nothing_between_nodes() -> None:
    assert sent("all_gather 8-15", 8) == (7, 0)


def test_a_ring_over_four_nodes_leaves_a_node_on_four_of_its_32_links() -> None:
    inside, between = sent("all_gather 0-31", 32)
    assert (inside, between) == (31 * 28 / 32, 31 * 4 / 32)
    assert sum(sent("all_reduce 0-31", 32)) == 62


def test_an_all_to_all_goes_to_the_other_nodes_for_the_most_part() -> None:
    inside, between = sent("all_to_all 0-15", 16)
    assert (inside, between) == pytest.approx((7, 8))


def test_ranks_of_one_to_a_node_send_all_between_nodes() -> None:
    assert sent("all_reduce 0-24/8", 4) == (0, 6)


def test_nothing_is_said_of_what_an_older_probe_measured() -> None:
    assert traffic([PhaseReading(collectives={"all_gather": [1, GIB]})], 8) is None
