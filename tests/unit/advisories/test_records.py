"""The published advisories are what the sources say, and claim what was run."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import pytest
from packaging.version import Version

from dsregress.advisories import osv
from dsregress.advisories.advisory import Advisory, Remedy
from dsregress.advisories.job_facts import FACTS
from dsregress.advisories.shipped import read_advisories
from dsregress.probe.factor import among
from tests.golden_files import Golden
from tests.unit.advisories import making
from tests.unit.advisories.published import problems_shown
from tests.unit.advisories.table import FOLDER, entries
from tests.unit.docs import reproducer_page


@functools.cache
def _made() -> Mapping[str, Advisory]:
    return making.with_sound_releases({entry.id: making.made(entry) for entry in entries()})


@pytest.mark.slow
def test_each_record_is_made_of_its_sources(golden: Golden) -> None:
    made = _made()
    for name, advisory in made.items():
        golden(f"{name}.json", osv.encode_advisory(advisory).decode("utf-8"), folder=FOLDER)
    assert {file.stem for file in FOLDER.glob("*.json")} == set(made)


def test_an_id_is_given_once_and_in_order() -> None:
    ids = [entry.id for entry in entries()]
    assert ids == [f"DSR-2026-{number:04}" for number in range(1, len(ids) + 1)]


def test_every_script_is_a_source() -> None:
    """A script without an advisory would be a problem that no surface knows of."""
    used = {name for entry in entries() for name in entry.scripts}
    assert set(reproducer_page.answers()) - used == set()
    known = {one.by_hand.removesuffix(".py") for one in reproducer_page.known().without_script if one.by_hand}
    used_by_hand = {name for entry in entries() for name in entry.by_hand}
    assert (known | set(reproducer_page.by_hand())) - used_by_hand == set()


@pytest.mark.slow
def test_every_problem_that_the_page_of_findings_shows_has_an_advisory() -> None:
    """But for that of a job of our own, which checkpoints LoRA and does not call `enable_input_require_grads`; and counts of
    work, of which those with a script have one."""
    without = {
        on.workload
        for one in problems_shown()
        if not one.is_cost and not any(making.is_of(one, entry) for entry in entries())
        for on in one.on
    }
    assert without == {"trainer_lora/settings=zero3_scheduler.json,gradient_checkpointing=true/cpu"}


@pytest.mark.parametrize("advisory", read_advisories(), ids=lambda one: one.id)
def test_a_record_is_whole(advisory: Advisory) -> None:
    assert 0 < len(advisory.title) < 90
    assert advisory.sees
    assert advisory.evidence.runs or advisory.evidence.reason or advisory.evidence.cells
    assert advisory.published <= advisory.modified
    assert {condition.fact for condition in advisory.conditions} <= set(FACTS)
    for condition in advisory.conditions:
        assert condition.text
        assert condition.shown
        assert not [one for one in condition.shown if among(one, (*condition.hidden, *condition.unknown))]
        assert not [one for one in condition.hidden if among(one, condition.unknown)]
    for one in (*advisory.ranges, *advisory.partners):
        assert one.affected
        assert set(one.affected).isdisjoint(one.unaffected)
        assert list(one.affected) == sorted(one.affected, key=Version)
        assert list(one.unaffected) == sorted(one.unaffected, key=Version)


@pytest.mark.parametrize("advisory", read_advisories(), ids=lambda one: one.id)
def test_a_remedy_was_run(advisory: Advisory) -> None:
    assert [one.text for one in advisory.remedies if not _was_run(advisory, one)] == []


def _was_run(advisory: Advisory, remedy: Remedy) -> bool:
    """Return True if a release was run without the problem, or a setting in an affected release of any package."""
    if remedy.version:
        ran = (*advisory.ranges, *advisory.partners)
        return any(one.package == remedy.package and remedy.version in one.unaffected for one in ran)
    run_in = {release for one in (*advisory.ranges, *advisory.partners) for release in one.affected}
    return bool(remedy.ran_in) and run_in.issuperset(remedy.ran_in)
