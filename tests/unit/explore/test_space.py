"""What an exploration tries: everyday jobs and what is beside them, nothing that cannot be configured."""

from __future__ import annotations

import itertools
import random

from dsregress.explore import space
from dsregress.explore.space import REQUIREMENTS, VARIED
from dsregress.reproduce import requirements

EVERYDAY = space.everyday()


def test_there_is_an_everyday_job_of_each_stage() -> None:
    assert [row["zero_stage"] for row in EVERYDAY] == [3, 2, 1, 0]
    assert all(requirements.is_valid(row) for row in EVERYDAY)
    assert [row["zero_init"] for row in EVERYDAY] == [True, False, False, False]
    assert {row["gradient_accumulation_steps"] for row in EVERYDAY} == {2}


def test_each_value_is_tried_beside_a_job_with_what_it_needs_and_its_stage_stays() -> None:
    rows = space.neighbours(EVERYDAY)
    assert all(requirements.is_valid(row) for row in rows)
    tried = {(name, repr(value)) for row in [*rows, *EVERYDAY] for name, value in row.items()}
    assert {(f.name, repr(value)) for f in VARIED for value in f.explored} == tried
    for base in EVERYDAY:
        own = [row for row in rows if row["zero_stage"] == base["zero_stage"]]
        assert {**base, "dtype": "fp32"} in own
        assert base not in own


def test_rules_are_about_values_that_are_tried() -> None:
    tried = {factor.name: factor.explored for factor in VARIED}
    for rule in REQUIREMENTS:
        assert set(map(repr, rule.values)) <= set(map(repr, tried[rule.name])), rule
        assert set(map(repr, rule.needed)) < set(map(repr, tried[rule.other])), rule


def test_a_row_has_the_values_that_it_begins_with_and_nothing_forbidden() -> None:
    known = {"dtype": "fp16", "checkpoint": True}
    drawn = random.Random(0)
    rows = [
        space.sprinkled(EVERYDAY[0], {"checkpoint": True, "offload_param": True}, 8, drawn, [known]) for _ in range(50)
    ]
    for row in rows:
        assert row is not None
        assert requirements.is_valid(row)
        assert space.has_values(row, {"checkpoint": True, "offload_param": True})
        assert not space.has_values(row, known)
        assert len({name for name in row if row[name] != EVERYDAY[0][name]}) >= 5


def test_values_that_do_not_go_together_make_no_row() -> None:
    assert space.sprinkled(EVERYDAY[0], {"zero_stage": 2, "zero_init": True}, 0, random.Random(0)) is None


def test_rows_near_a_fault_have_all_but_one_of_its_values() -> None:
    known = {"zero_stage": 1, "gradient_accumulation_steps": 4, "model_outputs": "all"}
    for row in itertools.islice(space.near(EVERYDAY, [known], random.Random(0), []), 50):
        assert requirements.is_valid(row)
        assert sum(space.has_values(row, {name: value}) for name, value in known.items()) >= 2
