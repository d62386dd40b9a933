"""Which remedies a job is told of, and what comes with them."""

from __future__ import annotations

from typing import Any

import pytest

from dsregress.advisories.advisory import Advisory, AdvisoryKind, Remedy, Ruling
from dsregress.advisories.auditing import Audit, audit_job
from dsregress.advisories.matching import KnownJob
from dsregress.versions import declared_requirements
from tests.builders.advisories import advisory

#: Of the problem: 0.17.0 and 0.18.0 have it, 0.19.0 ends it.
TO_FIXED = Remedy(text="use 0.19.0", package="deepspeed", version="0.19.0")
BEFORE = Remedy(text="use 0.16.0", package="deepspeed", version="0.16.0")
SETTING = Remedy(text="no offload", fact="offload_optimizer", value=False)


def audited(*advisories: Advisory, **facts: Any) -> Audit:
    return audit_job(advisories, KnownJob(versions={"deepspeed": "0.18.0"}, facts=facts))


def told(found: Audit) -> list[str]:
    """Return the remedies of the first advisory that concerns the job."""
    return [remedy.text for remedy in found.concerned[0].remedies]


def test_the_release_that_ends_a_fault_is_named() -> None:
    found = audited(advisory(remedies=[TO_FIXED]))
    assert (told(found), found.arising) == (["use 0.19.0"], ())


def test_a_release_with_another_fault_gives_way_to_the_next_one_without() -> None:
    other = advisory(2, affected=["0.19.0"], unaffected=["0.18.0", "0.20.0", "0.21.0"])
    found = audited(advisory(remedies=[TO_FIXED], unaffected=["0.16.0", "0.19.0", "0.21.0"]), other)
    assert (told(found), found.arising) == (["use 0.20.0"], ())


def test_a_release_that_may_crash_gives_way_to_the_next_one_that_cannot() -> None:
    crash = advisory(
        2,
        kind=AdvisoryKind.CRASHES,
        affected=["0.19.0"],
        unaffected=["0.18.0", "0.20.0"],
        needs={"resume": ([True], [False])},
    )
    problem = advisory(remedies=[TO_FIXED], unaffected=["0.16.0", "0.19.0", "0.20.0"])
    assert told(audited(problem, crash)) == ["use 0.20.0"]
    assert told(audited(problem, crash, resume=False)) == ["use 0.19.0"]


def test_a_release_with_another_fault_is_left_out_beside_one_without() -> None:
    other = advisory(2, affected=["0.19.0"], unaffected=["0.16.0", "0.18.0"])
    assert told(audited(advisory(remedies=[TO_FIXED, BEFORE]), other)) == ["use 0.16.0"]


def test_a_release_whose_default_changed_comes_last_and_is_said_to_have_it() -> None:
    other = advisory(
        2, kind=AdvisoryKind.DEFAULT_CHANGED, ruling=Ruling.CHANGE, affected=["0.19.0"], unaffected=["0.16.0", "0.18.0"]
    )
    found = audited(advisory(remedies=[TO_FIXED, BEFORE]), other)
    assert told(found) == ["use 0.16.0", "use 0.19.0"]
    assert [(one.remedy.text, one.matched.advisory.id) for one in found.arising] == [("use 0.19.0", "DSR-2026-0002")]


def test_a_release_that_cannot_be_installed_beside_the_others_gives_way_to_one_that_can_or_is_not_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declared = {"openrlhf": {"0.8.0": ["deepspeed!=0.19.0"], "0.9.0": ["deepspeed==0.18.0"]}}
    monkeypatch.setattr(declared_requirements, "known_requirements", lambda: declared)
    problem = advisory(remedies=[TO_FIXED, BEFORE], unaffected=["0.16.0", "0.19.0", "0.20.0"])
    job = KnownJob(versions={"deepspeed": "0.18.0"})
    found = {
        release: told(audit_job([problem], job.changed(versions={"openrlhf": release})))
        for release in ("0.7.0", "0.8.0", "0.9.0")
    }
    assert found == {"0.7.0": ["use 0.19.0", "use 0.16.0"], "0.8.0": ["use 0.20.0", "use 0.16.0"], "0.9.0": []}


def test_two_remedies_that_give_way_to_one_release_are_named_once() -> None:
    other = advisory(2, affected=["0.19.0", "0.20.0"], unaffected=["0.18.0", "0.21.0"])
    second = Remedy(text="use 0.20.0", package="deepspeed", version="0.20.0")
    found = audited(advisory(remedies=[TO_FIXED, second], unaffected=["0.16.0", "0.19.0", "0.21.0"]), other)
    assert told(found) == ["use 0.21.0"]


def test_what_the_job_has_already_speaks_against_no_remedy() -> None:
    other = advisory(2, affected=["0.16.0", "0.18.0", "0.19.0"], unaffected=["0.20.0"])
    found = audited(advisory(remedies=[TO_FIXED], unaffected=["0.16.0", "0.19.0", "0.20.0"]), other)
    assert (told(found), found.arising) == (["use 0.19.0"], ())


def test_a_setting_that_brings_a_fault_is_left_out_beside_one_that_does_not() -> None:
    needs = {"offload_optimizer": ([True], [False])}
    other = advisory(2, needs={"offload_optimizer": ([False], [True])})
    found = audited(advisory(remedies=[SETTING, TO_FIXED], needs=needs), other, offload_optimizer=True)
    assert told(found) == ["use 0.19.0"]


def test_a_release_that_ends_several_grave_faults_is_named_where_each_names_another() -> None:
    first = advisory(1, affected=["0.17.0", "0.18.0"], unaffected=["0.16.0", "0.19.0", "0.20.0"], remedies=[TO_FIXED])
    to_last = Remedy(text="use 0.20.0", package="deepspeed", version="0.20.0")
    last = advisory(2, affected=["0.17.0", "0.18.0", "0.19.0"], unaffected=["0.16.0", "0.20.0"], remedies=[to_last])
    assert audited(first, last).for_all == {"deepspeed": "0.20.0"}
    assert audited(first).for_all == {}
    faulty = advisory(3, affected=["0.20.0"], unaffected=["0.16.0", "0.17.0", "0.18.0", "0.19.0"])
    assert audited(first, last, faulty).for_all == {"deepspeed": "0.16.0"}
