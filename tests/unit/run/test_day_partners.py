"""Packages of a day that do not run with a torch that is newer."""

from __future__ import annotations

import msgspec

from dsregress.config.settings import Settings
from dsregress.model import Stack
from dsregress.run.day_partners import with_running_partners
from dsregress.versions.stack_plans import StackPlan

OF_DAY = {"torch": "2.13.0", "accelerate": "0.22.0", "deepspeed": "0.10.1"}


def planned() -> StackPlan:
    stacks = tuple(
        Stack(python="3.11", versions={**OF_DAY, "transformers": one}, label=one) for one in ("4.31.0", "4.32.0")
    )
    return StackPlan(stacks=stacks, baseline=stacks[0], axes=("transformers",))


def of_a_day(day: str) -> Settings:
    return msgspec.structs.replace(Settings(), as_of=day)


def test_a_package_that_nobody_named_gives_way_to_the_nearest_release_that_runs_and_is_told() -> None:
    found = with_running_partners(planned(), ("transformers",), of_a_day("2023-08-24"))
    assert [stack.versions["deepspeed"] for stack in found.stacks] == ["0.14.4", "0.14.4"]
    assert found.baseline == found.stacks[0]
    assert found.notes == ("deepspeed 0.10.1, of 2023-08-24, does not run with the others: 0.14.4 is taken",)


def test_a_package_that_is_named_stays_and_so_does_every_one_without_a_day() -> None:
    assert with_running_partners(planned(), ("transformers", "deepspeed"), of_a_day("2023-08-24")) == planned()
    assert with_running_partners(planned(), ("transformers",), of_a_day("")) == planned()
