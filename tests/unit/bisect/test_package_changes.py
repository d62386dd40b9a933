"""The packages of an upgrade that make it worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from dsregress.bisect.package_changes import PackageChange, SmallestChanges, Trial, smallest_changes
from dsregress.model import Verdict

CHANGES = tuple(PackageChange(name, "1.0", "2.0") for name in ("torch", "transformers", "peft", "trl"))


def found(shows: Callable[[set[str]], bool | None]) -> SmallestChanges:
    """The answer if ``shows`` says which sets of packages are worse; None is no answer."""

    def attempt(changes: Sequence[PackageChange]) -> Trial:
        worse = shows({one.package for one in changes})
        verdict = Verdict.UNKNOWN if worse is None else Verdict.BAD if worse else Verdict.GOOD
        return Trial(tuple(changes), verdict, "")

    return smallest_changes(CHANGES, attempt)


def names(changes: Sequence[PackageChange]) -> list[str]:
    return [one.package for one in changes]


@pytest.mark.parametrize("guilty", ["torch", "transformers", "peft", "trl"])
def test_one_guilty_package_is_found_alone(guilty: str) -> None:
    answer = found(lambda chosen: guilty in chosen)
    assert names(answer.needed) == [guilty]
    assert names(answer.trials[-1].changes) == [guilty]


def test_of_two_that_are_each_worse_one_is_named() -> None:
    assert names(found(lambda chosen: bool(chosen & {"peft", "trl"})).needed) == ["peft"]


def test_two_that_are_worse_together_only_are_both_named() -> None:
    answer = found(lambda chosen: {"torch", "peft"} <= chosen)
    assert names(answer.needed) == ["torch", "peft"]
    assert answer.unseparated == ()


def test_what_gives_no_answer_without_a_package_is_said() -> None:
    """transformers 2.0 does not go with torch 1.0."""
    answer = found(
        lambda chosen: (
            None if "transformers" in chosen and "torch" not in chosen else {"torch", "transformers"} <= chosen
        )
    )
    assert names(answer.needed) == ["torch", "transformers"]
    assert names(answer.unseparated) == ["torch"]


def test_an_upgrade_of_two_packages_needs_two_trials() -> None:
    tried: list[list[str]] = []

    def attempt(changes: Sequence[PackageChange]) -> Trial:
        tried.append(names(changes))
        return Trial(tuple(changes), Verdict.GOOD, "")

    assert names(smallest_changes(CHANGES[:2], attempt).needed) == ["torch", "transformers"]
    assert tried == [["torch"], ["transformers"]]
