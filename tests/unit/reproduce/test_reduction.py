"""What is left of a cell, and which factors its finding needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dsregress.model import Verdict
from dsregress.probe.factor import Factor
from dsregress.reproduce.reduction import Parameters, Reduced, reduce

FACTORS = (
    Factor(name="stage", title="ZeRO stage", values=(0, 1, 2, 3), configured=True),
    Factor(name="accumulation", title="accumulation", values=(1, 2, 4), counted=True),
    Factor(name="dtype", title="dtype", values=("fp32", "bf16")),
    Factor(name="offload", title="offload", values=(False, True)),
)
CELL = {"stage": 2, "accumulation": 4, "dtype": "bf16", "offload": True, "model": "tiny"}


class Asked:
    """Answers by a rule, and counts."""

    def __init__(self, rule: Callable[[Parameters], Verdict | bool]) -> None:
        self._rule = rule
        self.trials: list[dict[str, Any]] = []

    def __call__(self, trials: Sequence[Parameters]) -> list[Verdict]:
        self.trials += map(dict, trials)
        found = []
        for trial in trials:
            answer = self._rule(trial)
            found.append(answer if isinstance(answer, Verdict) else Verdict.BAD if answer else Verdict.GOOD)
        return found


def texts(reduced: Reduced) -> list[str]:
    return [condition.factor.text(condition.shown, condition.hidden) for condition in reduced.needed]


def test_everything_that_is_not_needed_is_set_back() -> None:
    found = reduce(CELL, FACTORS, Asked(lambda p: p["stage"] in (1, 2) and p["accumulation"] > 1))
    assert found.parameters == {"stage": 1, "accumulation": 2, "dtype": "fp32", "offload": False, "model": "tiny"}


def test_conditions_name_every_value_that_shows_it() -> None:
    found = reduce(CELL, FACTORS, Asked(lambda p: p["stage"] in (1, 2) and p["accumulation"] > 1))
    assert texts(found) == ["ZeRO stage 1 or 2", "accumulation above 1"]
    assert [condition.factor.name for condition in found.indifferent] == ["dtype", "offload"]


def test_changes_that_hide_it_only_together_are_not_all_made() -> None:
    asked = Asked(lambda p: p["dtype"] == "bf16" or p["offload"])
    found = reduce(CELL, FACTORS, asked)
    assert (found.parameters["dtype"], found.parameters["offload"]) in [("fp32", True), ("bf16", False)]
    assert asked([found.parameters]) == [Verdict.BAD]


def test_what_cannot_be_configured_is_not_tried() -> None:
    asked = Asked(lambda p: p["accumulation"] > 1)
    found = reduce(CELL, FACTORS, asked, is_valid=lambda p: bool(p["stage"]) or not p["offload"])
    assert (found.parameters["stage"], found.parameters["offload"]) == (0, False)
    assert all(trial["stage"] > 0 or not trial["offload"] for trial in asked.trials)


def test_a_cell_that_the_rules_do_not_know_is_reduced_all_the_same() -> None:
    found = reduce(
        CELL, FACTORS, Asked(lambda p: p["accumulation"] > 1), is_valid=lambda p: p["accumulation"] in (1, 2)
    )
    assert found.parameters["accumulation"] == 2


def test_what_is_left_cannot_be_made_simpler_by_any_single_change() -> None:
    def rule(p: Parameters) -> bool:
        return p["stage"] == 3 or (p["stage"] == 2 and p["dtype"] == "bf16" and p["accumulation"] >= 2)

    found = reduce({**CELL, "stage": 3}, FACTORS, Asked(rule))
    left = found.parameters
    for factor in FACTORS:
        for simpler in factor.values[: factor.values.index(left[factor.name])]:
            assert not rule({**left, factor.name: simpler})


def test_a_value_that_cannot_be_judged_is_neither_a_condition_nor_indifferent() -> None:
    def rule(p: Parameters) -> Verdict:
        return Verdict.UNKNOWN if p["dtype"] == "fp32" else Verdict.BAD

    (dtype,) = (c for c in reduce(CELL, FACTORS, Asked(rule)).conditions if c.factor.name == "dtype")
    assert (dtype.shown, dtype.hidden, dtype.unknown) == (("bf16",), (), ("fp32",))
    assert not dtype.is_needed
    assert not dtype.is_indifferent
    assert dtype in reduce(CELL, FACTORS, Asked(rule)).open
    assert dtype in reduce(CELL, FACTORS, Asked(rule)).seen_with


def test_a_factor_with_a_value_that_cannot_be_judged_is_not_indifferent() -> None:
    def rule(p: Parameters) -> Verdict:
        return Verdict.UNKNOWN if p["stage"] == 3 else Verdict.BAD

    found = reduce(CELL, FACTORS, Asked(rule))
    assert "stage" not in [condition.factor.name for condition in found.indifferent]
    assert [condition.factor.name for condition in found.open] == ["stage"]
    assert found.seen_with == ()  # the simplest stage shows it


def test_a_value_of_the_cell_alone_is_tried_too() -> None:
    found = reduce({**CELL, "accumulation": 7}, FACTORS, Asked(lambda p: p["accumulation"] == 7))
    assert found.parameters["accumulation"] == 7
    assert texts(found) == ["accumulation 7"]


def test_nothing_is_measured_twice_in_one_batch() -> None:
    asked = Asked(lambda p: p["stage"] > 0)
    reduce(CELL, FACTORS, asked)
    singles = [tuple(sorted(trial.items())) for trial in asked.trials[:7]]
    assert len(set(singles)) == len(singles)


def test_a_guess_that_holds_saves_the_trials_of_all_other_factors() -> None:
    def rule(p: Parameters) -> bool:
        return p["stage"] in (1, 2) and p["accumulation"] > 1

    guessed, plain = Asked(rule), Asked(rule)
    found = reduce(CELL, FACTORS, guessed, leaps=[{"stage"}, {"stage", "accumulation"}])
    assert found == reduce(CELL, FACTORS, plain)
    assert guessed.trials[:2] == [
        {"stage": 2, "accumulation": 1, "dtype": "fp32", "offload": False, "model": "tiny"},
        {"stage": 2, "accumulation": 4, "dtype": "fp32", "offload": False, "model": "tiny"},
    ]


def test_guesses_that_fail_change_nothing() -> None:
    def rule(p: Parameters) -> bool:
        return p["dtype"] == "bf16" and p["offload"]

    assert reduce(CELL, FACTORS, Asked(rule), leaps=[{"stage"}]) == reduce(CELL, FACTORS, Asked(rule))


def test_the_value_that_changes_least_is_the_nearest_one_that_hides_it() -> None:
    found = reduce(CELL | {"stage": 3}, FACTORS, Asked(lambda p: p["stage"] == 3 and p["accumulation"] > 1))
    assert {one.factor.name: one.nearest_hidden for one in found.needed} == {"stage": 2, "accumulation": 1}
