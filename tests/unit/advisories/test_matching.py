"""Advisories put to a job."""

from __future__ import annotations

from typing import Any

import pytest

from dsregress.advisories.advisory import FactCondition
from dsregress.advisories.job_facts import NO_VALUE, OneOf
from dsregress.advisories.matching import (
    KnownJob,
    Match,
    condition_shows,
    condition_text,
    is_affected,
    match_advisories,
    match_advisory,
    value_text,
)
from tests.builders.advisories import advisory


def job(deepspeed: str = "0.17.0", *, torch: str | None = None, **facts: Any) -> KnownJob:
    return KnownJob(versions={"deepspeed": deepspeed, **({"torch": torch} if torch else {})}, facts=facts)


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("0.17.0", True),
        ("0.17.5", True),  # between two that have it
        ("0.15.1", False),  # between two that have not
        ("0.16.5", None),  # it came somewhere here
        ("0.18.5", None),
        ("0.14.0", None),  # before the oldest
        ("0.19.9", None),  # beyond the newest
        ("0.16.0.post1", None),
    ],
)
def test_a_release_that_was_not_run_has_the_answer_of_both_its_neighbours(version: str, answer: bool | None) -> None:
    assert is_affected(version, ["0.17.0", "0.18.0"], ["0.15.0", "0.16.0", "0.19.0"]) is answer


def test_releases_are_ordered_as_versions() -> None:
    assert is_affected("2.9.1", ["2.10.0", "2.13.0"], ["2.5.1", "2.9.1"]) is False
    assert is_affected("2.11.0", ["2.10.0", "2.13.0"], ["2.5.1", "2.9.1"]) is True


def test_a_job_whose_facts_all_show_the_problem_is_concerned() -> None:
    found = match_advisory(advisory(needs={"zero_stage": ([1, 2], [0, 3])}), job(zero_stage=2))
    assert found.match is Match.CONCERNED


def test_a_job_with_a_value_that_does_not_show_it_is_free() -> None:
    found = match_advisory(
        advisory(needs={"zero_stage": ([1, 2], [0, 3]), "torch_autocast": ([True], [False])}), job(zero_stage=3)
    )
    assert (found.match, found.open) == (Match.FREE, ())


def test_a_fact_that_was_not_stated_is_open_and_never_assumed() -> None:
    needs: Any = {"zero_stage": ([1, 2], [0, 3]), "torch_autocast": ([True], [False])}
    found = match_advisory(advisory(needs=needs), job(zero_stage=2))
    assert found.match is Match.DEPENDS
    assert [condition.fact for condition in found.open] == ["torch_autocast"]


def test_a_value_that_was_not_run_is_unknown() -> None:
    found = match_advisory(advisory(needs={"dtype": (["bf16"], ["fp32"])}), job(dtype="fp16"))
    assert (found.match, found.not_run) == (Match.UNKNOWN, ("dtype fp16",))


def test_a_release_that_was_not_run_is_unknown() -> None:
    assert match_advisory(advisory(), job("0.19.9")).not_run == ("deepspeed 0.19.9",)


def test_what_is_free_by_one_fact_needs_no_other() -> None:
    found = match_advisory(advisory(needs={"zero_stage": ([3], [1])}), job("0.19.9", zero_stage=1))
    assert (found.match, found.not_run) == (Match.FREE, ())


def test_a_partner_without_a_release_is_open_unless_it_is_known_to_be_absent() -> None:
    one = advisory(partners={"torch": (["2.10.0", "2.13.0"], ["2.9.1"])})
    assert match_advisory(one, job()).open_packages == ("torch",)
    assert match_advisory(one, job()).match is Match.DEPENDS
    absent = KnownJob(versions={"deepspeed": "0.17.0"}, absent=frozenset(["torch"]))
    assert match_advisory(one, absent).match is Match.FREE
    assert match_advisory(one, job(torch="2.12.0")).match is Match.CONCERNED
    assert match_advisory(one, job(torch="2.9.1")).match is Match.FREE


@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        (">=2.10", Match.CONCERNED),
        ("<2.10", Match.FREE),
        (">=2.9", Match.DEPENDS),
        (">=99", Match.DEPENDS),  # of these none is known
    ],
)
def test_a_range_has_the_answer_of_all_its_releases_if_that_is_one(bounds: str, match: Match) -> None:
    one = advisory(partners={"torch": (["2.10.0", "2.15.0"], ["2.4.0", "2.9.1"])})
    ranged = KnownJob(versions={"deepspeed": "0.17.0"}, ranges={"torch": bounds})
    assert match_advisory(one, ranged).match is match
    assert match_advisory(one, ranged.changed(versions={"torch": "2.9.1"})).match is Match.FREE


def test_a_framework_that_nothing_names_is_not_used() -> None:
    one = advisory(partners={"openrlhf": (["0.8.5"], ["0.11.2"])})
    assert match_advisory(one, job()).match is Match.FREE
    assert match_advisory(one, job(framework="trl")).match is Match.FREE
    assert match_advisory(one, job(framework="openrlhf")).open_packages == ("openrlhf",)
    unpinned = KnownJob(versions={"deepspeed": "0.17.0"}, ranges={"openrlhf": ""})  # by a path or a commit
    assert match_advisory(one, unpinned).open_packages == ("openrlhf",)
    other = advisory(partners={"vllm": (["0.10.0"], ["0.9.0"])})
    assert match_advisory(other, job(vllm=False)).match is Match.FREE
    assert match_advisory(other, job()).open_packages == ("vllm",)


def test_zero_is_not_no_and_one_is_not_yes() -> None:
    one = advisory(needs={"offload_optimizer": ([True], [False])})
    assert match_advisory(one, job(offload_optimizer=1)).match is Match.UNKNOWN


@pytest.mark.parametrize(
    ("steps", "match"), [(1, Match.FREE), (2, Match.CONCERNED), (3, Match.CONCERNED), (64, Match.CONCERNED)]
)
def test_a_number_has_the_answer_of_the_nearest_that_were_run(steps: int, match: Match) -> None:
    one = advisory(needs={"gradient_accumulation_steps": ([2, 4], [1])})
    assert match_advisory(one, job(gradient_accumulation_steps=steps)).match is match


def test_a_number_between_two_answers_is_unknown() -> None:
    one = advisory(needs={"gradient_accumulation_steps": ([4], [1, 2])})
    assert match_advisory(one, job(gradient_accumulation_steps=3)).match is Match.UNKNOWN


@pytest.mark.parametrize(("rank", "match"), [(0, Match.FREE), (8, Match.CONCERNED), (64, Match.CONCERNED)])
def test_adapters_of_any_rank_are_as_those_that_were_run(rank: int, match: Match) -> None:
    assert match_advisory(advisory(needs={"lora_rank": ([8], [0])}), job(lora_rank=rank)).match is match


def test_the_tried_values_may_stand_for_all_others() -> None:
    condition = FactCondition(fact="overlap_comm", shown=(True,), hidden=(None,), unknown=(False,), others=True)
    assert [condition_shows(condition, value) for value in (True, None, False, "auto")] == [True, False, None, True]


def test_a_limit_decides_for_all_numbers() -> None:
    condition = FactCondition(fact="warmup_max_lr", shown=(0.01,), hidden=(0.001,), above=0.001)
    assert [condition_shows(condition, value) for value in (0.5, 0.0005, "auto")] == [True, False, None]


def test_a_fact_with_several_possible_values_decides_if_all_say_the_same() -> None:
    one = advisory(needs={"gradient_clipping": ([None], [0.0, 1.0])})
    assert match_advisory(one, job(gradient_clipping=OneOf((0.0, 1.0)))).match is Match.FREE
    assert match_advisory(one, job(gradient_clipping=OneOf((None, 1.0)))).match is Match.DEPENDS
    assert match_advisory(one, job(gradient_clipping=None)).match is Match.CONCERNED


def test_possible_values_that_were_not_run_leave_it_unknown() -> None:
    one = advisory(needs={"objective": (["two_backwards"], ["next_token"])})
    found = match_advisory(one, job(objective=OneOf(("next_token", "no_head"))))
    assert (found.match, found.not_run) == (Match.UNKNOWN, ("parameters without a gradient",))


def test_a_fact_that_has_no_value_shows_nothing_and_is_no_question() -> None:
    """Without DeepSpeed, no stage: neither one that was run nor one that was not."""
    staged = advisory(needs={"zero_stage": ([3], [])})
    assert match_advisory(staged, job(zero_stage=NO_VALUE)).match is Match.FREE
    assert value_text("zero_stage", NO_VALUE) == "no ZeRO stage"


def test_one_affected_package_of_several_is_enough() -> None:
    one = advisory()
    both = advisory(package="transformers", affected=["4.48.1"], unaffected=["4.47.0", "4.49.0"])
    either = type(one)(id=one.id, title=one.title, kind=one.kind, ruling=one.ruling, ranges=(*one.ranges, *both.ranges))
    stack = {"deepspeed": "0.19.0", "transformers": "4.48.1"}
    assert match_advisory(either, KnownJob(versions=stack)).match is Match.CONCERNED
    assert match_advisory(either, KnownJob(versions={**stack, "transformers": "4.49.0"})).match is Match.FREE


def test_a_withdrawn_advisory_concerns_nobody() -> None:
    assert match_advisories([advisory(withdrawn="2026-11-26")], job()) == ()


def test_a_condition_is_in_its_own_words_else_in_those_of_its_fact() -> None:
    assert condition_text(FactCondition(fact="zero_stage", shown=(1, 2))) == "ZeRO stage 1 or 2"
    assert condition_text(FactCondition(fact="fsdp", shown=(True,))) == "FSDP"
    assert condition_text(FactCondition(fact="zero_stage", shown=(1,), text="optimizer states sharded")) == (
        "optimizer states sharded"
    )
