"""Releases of which nothing can be known."""

from __future__ import annotations

import pytest

from dsregress.advisories.auditing import audit_job
from dsregress.advisories.covered_packages import coverage, unlisted_releases
from dsregress.advisories.job_facts import merged_facts, said_fact
from dsregress.advisories.matching import KnownJob, Match
from dsregress.advisories.shipped import read_advisories

ADVISORIES = read_advisories()


@pytest.mark.parametrize(
    ("version", "is_unlisted"),
    [
        ("0.16.80", True),  # between two that are published
        ("0.95.3", True),  # newer than all
        ("0.16.8", False),
        ("0.16.8.post1", False),
        ("0.20.0rc1", False),  # of a release to come
        ("0.3.0", False),  # older than all that are listed
        ("0.16", False),  # 0.16.0, as one writes it
    ],
)
def test_a_final_release_that_is_not_known_to_be_published(version: str, is_unlisted: bool) -> None:
    found = list(unlisted_releases(ADVISORIES, {"deepspeed": version}, ["deepspeed"]))
    assert found == ([f"deepspeed {version}"] if is_unlisted else [])


def test_a_release_that_was_run_is_known_wherever_it_is_published() -> None:
    run = next(version for one in ADVISORIES for each in one.ranges for version in each.affected)
    package = next(each.package for one in ADVISORIES for each in one.ranges if run in each.affected)
    assert not list(unlisted_releases(ADVISORIES, {package: run}, [package]))


def test_an_audit_names_such_releases_of_packages_that_the_job_uses() -> None:
    versions = {"deepspeed": "0.95.3", "torch": "2.9.1", "transformers": "4.57.6"}
    assert audit_job(ADVISORIES, KnownJob(versions=versions)).unlisted == ("deepspeed 0.95.3",)
    facts, _ = merged_facts([], [said_fact("deepspeed=no")])
    without = KnownJob(versions=versions, facts={name: fact.value for name, fact in facts.items()})
    assert audit_job(ADVISORIES, without).unlisted == ()


@pytest.mark.parametrize(("facts", "match"), [({}, Match.FREE), ({"head_token_indices": True}, Match.CONCERNED)])
def test_an_advisory_about_rare_jobs_is_about_those_that_state_it(facts: dict[str, bool], match: Match) -> None:
    job = KnownJob(versions={"transformers": "4.57.6", "peft": "0.17.1"}, facts={"lora": True, **facts})
    only = [one for one in ADVISORIES if one.id == "DSR-2026-0110"]
    assert coverage(only, job, "peft") is match
