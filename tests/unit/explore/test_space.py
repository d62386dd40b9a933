"""What an exploration tries: every pair of values, nothing that cannot be configured."""

from __future__ import annotations

import itertools
import random

from harness.explore import space
from harness.explore.space import REQUIREMENTS, VARIED, explored_values
from harness.reproduce import requirements
from harness.reproduce.factors import BY_NAME

ROWS = space.covering("0")


def test_every_two_values_that_the_rules_let_are_together_in_some_row() -> None:
    assert all(requirements.is_valid(row) for row in ROWS)
    names = ("zero_stage", "gradient_accumulation_steps", "model_outputs", "dtype", "checkpoint", "world_size")
    for one, other in itertools.combinations(names, 2):
        for value, second in itertools.product(explored_values(BY_NAME[one]), explored_values(BY_NAME[other])):
            assert any(space.has(row, {one: value, other: second}) for row in ROWS)


def test_the_same_seed_gives_the_same_rows_and_another_one_others() -> None:
    assert space.covering("0") == ROWS != space.covering("1")


def test_what_is_known_to_crash_is_in_no_row() -> None:
    known = {"zero_stage": 1, "objective": "two_backwards"}
    rows = space.covering("0", [known])
    assert rows
    assert not any(space.has(row, known) for row in rows)


def test_rows_near_a_fault_have_all_but_one_of_its_values() -> None:
    known = {"zero_stage": 1, "gradient_accumulation_steps": 2, "model_outputs": "all"}
    for row in itertools.islice(space.near(random.Random(0), [known]), 50):
        assert requirements.is_valid(row)
        assert sum(space.has(row, {name: value}) for name, value in known.items()) >= 2


def test_rules_are_about_values_that_are_tried() -> None:
    tried = {factor.name: explored_values(factor) for factor in VARIED}
    for rule in REQUIREMENTS:
        assert set(map(repr, rule.values)) <= set(map(repr, tried[rule.name])), rule
        assert set(map(repr, rule.needed)) < set(map(repr, tried[rule.other])), rule


def test_each_value_is_tried_alone_with_what_it_needs() -> None:
    rows = space.alone()
    assert all(requirements.is_valid(row) for row in rows)
    assert {name: value for row in rows for name, value in space.changed(row).items()}.keys() == {
        factor.name for factor in space.VARIED
    }
    assert {"zero_stage": 3, "zero_init": True} in [space.changed(row) for row in rows]


def test_a_row_does_without_what_is_known_to_crash() -> None:
    row = {**space.alone()[0], "zero_stage": 1, "checkpoint": True, "evaluate": True}
    left = space.without(row, [{"zero_stage": 1, "checkpoint": True}], random.Random(0))
    assert left in ({**row, "zero_stage": 0}, {**row, "checkpoint": False})
    assert space.without(row, [{"checkpoint": True, "dtype": "bf16"}], random.Random(0)) == row
