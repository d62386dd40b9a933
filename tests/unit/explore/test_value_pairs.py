"""Every two values are tried together, in few rows, and only rows that ran to their end count."""

from __future__ import annotations

import random

import pytest

from dsregress.explore import space
from dsregress.explore.value_pairs import TriedPairs
from dsregress.probe.factors import BY_NAME
from dsregress.reproduce import requirements

EVERYDAY = space.everyday()


def rows_until_covered(seed: int, forbidden: list[space.Row]) -> tuple[TriedPairs, list[space.Row]]:
    pairs, drawn, rows = TriedPairs(), random.Random(seed), []
    while more := pairs.rows(EVERYDAY, 12, drawn, forbidden):
        for row in more:
            pairs.tried(row)
        rows += more
    return pairs, rows


@pytest.mark.slow
def test_every_two_values_that_the_rules_let_are_together_in_some_row() -> None:
    pairs, rows = rows_until_covered(0, [])
    assert pairs.share == 1
    assert len(rows) < 250
    assert all(requirements.is_valid(row) for row in rows)
    for stage in BY_NAME["zero_stage"].values[1:]:
        assert any(space.has_values(row, {"zero_stage": stage, "checkpoint": True}) for row in rows)
        assert any(space.has_values(row, {"zero_stage": stage, "dtype": "fp32"}) for row in rows)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows_and_another_one_others() -> None:
    rows = [TriedPairs().rows(EVERYDAY, 6, random.Random(seed)) for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


@pytest.mark.slow
def test_what_is_known_to_crash_is_in_no_row_and_does_not_count() -> None:
    known = {"checkpoint": True, "evaluate": True}
    pairs, rows = rows_until_covered(0, [known])
    assert not any(space.has_values(row, known) for row in rows)
    assert 0.9 < pairs.share < 1


def test_a_row_that_crashes_covers_nothing() -> None:
    pairs = TriedPairs()
    assert pairs.rows(EVERYDAY, 6, random.Random(0))
    assert pairs.share == 0


def test_pairs_beside_one_job_are_of_its_stage() -> None:
    pairs = TriedPairs(EVERYDAY[1])
    pairs.tried(EVERYDAY[0])
    assert pairs.share == 0
    assert {row["zero_stage"] for row in pairs.rows([EVERYDAY[1]], 12, random.Random(0))} == {2}
