"""Usual packages that run with the releases that are named."""

from __future__ import annotations

import pytest

from dsregress.cli.measured_changes import stack_of_list
from dsregress.model import Stack
from dsregress.versions.partners import fitting_partners, nearest_partners, read_partners


def test_a_list_without_peft_gets_one_that_runs_with_its_releases() -> None:
    configured = Stack(
        python="3.11",
        versions={"transformers": "5.24.0", "accelerate": "1.15.0", "peft": "0.21.2", "deepspeed": "0.19.8"},
    )
    found = stack_of_list(
        configured,
        {"transformers": "4.37.2", "accelerate": "0.27.2"},
        {"transformers": "4.38.2", "accelerate": "latest"},
    )
    assert found.versions == {
        "transformers": "4.37.2",
        "accelerate": "0.27.2",
        "peft": "0.13.2",
        "deepspeed": "0.19.8",
    }


def test_an_old_peft_gets_a_transformers_that_it_runs_with() -> None:
    stacks = [{"transformers": "5.24.0", "accelerate": "1.15.0", "peft": version} for version in ("0.16.0", "0.21.2")]
    assert fitting_partners({"transformers", "accelerate"}, stacks) == {"transformers": "4.57.6"}
    assert fitting_partners({"transformers", "accelerate"}, stacks[1:]) == {}


@pytest.mark.parametrize(("trl", "too_new"), [("0.28.0", True), ("0.29.0", False)])
def test_an_old_trl_gets_a_transformers_whose_answers_it_understands(trl: str, *, too_new: bool) -> None:
    found = fitting_partners({"transformers", "peft"}, [{"transformers": "5.24.0", "peft": "0.21.2", "trl": trl}])
    assert found == ({"transformers": "4.57.6"} if too_new else {})


def test_of_two_that_are_not_named_the_one_that_the_bound_is_about_gives_way() -> None:
    (stack,) = [{"transformers": "5.24.0", "accelerate": "1.15.0", "peft": "0.16.0"}]
    assert fitting_partners({"transformers", "peft"}, [stack]) == {"peft": "0.21.2"}


@pytest.mark.parametrize(("transformers", "is_newest_too_new"), [("4.38.2", True), ("4.39.1", True), ("4.40.2", False)])
def test_an_accelerate_that_refuses_what_an_old_trainer_passes_gives_way(
    transformers: str, *, is_newest_too_new: bool
) -> None:
    found = fitting_partners({"accelerate"}, [{"transformers": transformers, "accelerate": "1.15.0"}])
    assert found == ({"accelerate": "0.34.2"} if is_newest_too_new else {})


def test_the_nearest_release_that_runs_is_taken_where_it_is_to_be_the_nearest() -> None:
    stack = {"torch": "2.13.0", "transformers": "4.31.0", "accelerate": "0.22.0", "deepspeed": "0.10.1"}
    assert nearest_partners(stack, [stack]) == {"deepspeed": "0.14.4"}
    assert nearest_partners(stack, [{**stack, "torch": "2.1.0"}]) == {}


def test_torch_never_gives_way_by_itself() -> None:
    assert fitting_partners({"torch"}, [{"torch": "2.13.0", "deepspeed": "0.14.2"}]) == {}


def test_a_package_without_a_release_that_runs_in_all_stacks_stays() -> None:
    stacks = [{"transformers": version, "accelerate": "1.15.0", "peft": "0.17.1"} for version in ("4.41.0", "5.24.0")]
    assert fitting_partners({"peft"}, stacks) == {}


def test_a_commit_and_a_package_that_is_not_there_exclude_nothing() -> None:
    assert fitting_partners({"peft", "accelerate"}, [{"transformers": "1a2b3c4d", "peft": "0.21.2"}]) == {}


def test_a_table_with_a_bound_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid specifier"):
        read_partners(b'[[partner]]\npackage = "peft"\nreleases = "new"\nother = "torch"\nversions = ">=2"\n')
