"""The first line of an answer says no more than was run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dsregress.advisories.advisory import Advisory, PartnerCondition, Remedy
from dsregress.advisories.auditing import StatedJob
from dsregress.advisories.job_facts import Fact
from dsregress.advisories.upgrading import judge_upgrade
from dsregress.report.verdict_words import upgrade_headline
from tests.builders.advisories import advisory

#: Of such a job as `said` has, and of both packages.
FREE = advisory(9, unaffected=["0.16.0", "0.19.0", "0.20.0"], needs={"zero_stage": ([3], [0])})
FREE_OF_TORCH = advisory(
    8, package="torch", affected=["2.6.0"], unaffected=["2.7.0", "2.13.0"], needs={"zero_stage": ([3], [0])}
)
OFF = Remedy(text="turn overlap_comm off", fact="overlap_comm", value=False)
OVERLAP = {"overlap_comm": ([True], [False])}


def said(*advisories: Advisory, old: str = "0.16.0", new: str = "0.20.0", torch: str = "", **facts: Any) -> str:
    """Return the verdict, without the releases before it."""
    facts = {"zero_stage": 3, **facts}
    stated = {name: Fact(name=name, value=value, source="") for name, value in facts.items() if value != "open"}
    job = StatedJob(versions={"deepspeed": old, **({"torch": "2.9.1"} if torch else {})}, facts=stated)
    goal = job.going_to({"deepspeed": new, **({"torch": torch} if torch else {})})
    return upgrade_headline(judge_upgrade(advisories, job.job, goal.job), job, goal).partition(": ")[2]


def test_a_yes_alone_if_all_was_run() -> None:
    assert said(FREE) == "yes"


@pytest.mark.parametrize("needs", [{}, {"resume": ([True], [False])}])
def test_a_release_that_was_not_run_is_no_known_problem(needs: dict[str, Any]) -> None:
    """And a fact that was not stated does not hide it."""
    assert said(FREE, advisory(needs=needs)) == "no known problem; open, below: 1 advisory not run"
    two = said(FREE, advisory(needs=needs), advisory(2))
    assert two == "no known problem; open, below: 2 advisories not run"


def test_what_was_not_run_is_counted_over_packages() -> None:
    other = advisory(2, package="torch", affected=["2.8.0"], unaffected=["2.9.1"])
    far = advisory(3, package="torch", affected=["2.12.0"], unaffected=["2.11.0", "2.13.0"])
    both = said(FREE, advisory(), other, far, torch="2.10.0")
    assert both == "no known problem; open, below: 3 advisories not run"


def test_a_value_that_was_not_run_is_counted_as_a_release_is() -> None:
    found = said(advisory(needs={"device": (["cpu"], [])}), new="0.18.0", device="cuda")
    assert found == "no known problem; open, below: 1 advisory not run"


def test_what_is_not_known_of_both_for_the_same_reason_is_no_matter_of_the_upgrade() -> None:
    same = advisory(package="torch", affected=["2.8.0"], unaffected=["2.9.0"])
    assert said(FREE, FREE_OF_TORCH, same, torch="2.9.1") == "yes"
    always = advisory(affected=["0.16.0", "0.20.0"], unaffected=["0.15.0"], needs={"device": (["cpu"], [])})
    assert said(FREE, always, device="cuda") == "yes"


def test_a_setting_or_a_fault_of_both_stands_before_what_was_not_run() -> None:
    tail = "; open, below: 1 advisory not run"
    other = advisory(2, affected=["0.15.0"], unaffected=["0.16.0"])
    to_set = advisory(needs=OVERLAP, remedies=[OFF])
    assert said(to_set, other, new="0.18.0", overlap_comm=True) == f"yes, if you turn overlap_comm off{tail}"
    both = said(advisory(), other, old="0.17.0", new="0.18.0")
    assert both == f"no known new problem; it does not end what the job has: a problem{tail}"


def test_a_package_that_no_advisory_is_about_is_named() -> None:
    assert said(FREE, torch="2.10.0") == "no known problem; no advisory is about torch for a job like this"


def test_a_job_of_which_nothing_is_stated_gets_no_yes() -> None:
    """All that is known depends on facts that it does not state."""
    nothing = said(FREE, zero_stage="open")
    assert nothing == "no known problem; no advisory is known to be about deepspeed for a job like this"
    fault = advisory(affected=["0.20.0"], unaffected=["0.16.0"], needs={"zero_stage": ([3], [0])})
    assert said(fault, zero_stage="open") == "no known problem, except with ZeRO stage 3 (trains wrong)"


def test_what_is_about_every_job_says_nothing_of_this_one() -> None:
    every = advisory(2, unaffected=["0.16.0", "0.19.0", "0.20.0"])
    found = said(FREE, every, zero_stage=0)
    assert found == "no known problem; no advisory is known to be about deepspeed for a job like this"


def test_a_job_that_no_advisory_is_about_is_not_known() -> None:
    assert said(FREE, zero_stage=0) == "not known: no advisory is about deepspeed for a job like this"


def test_a_release_that_nobody_ran_is_named_without_those_that_stay() -> None:
    beside = msgspec.structs.replace(
        advisory(2, unaffected=["0.15.0"], affected=["0.16.0"]),
        partners=(PartnerCondition(package="torch", affected=("2.8.0",), unaffected=("2.10.0",)),),
    )
    found = said(FREE, advisory(affected=["0.16.0", "0.20.0"]), beside, new="0.99.0", torch="2.9.1")
    assert found == "not known: deepspeed 0.99.0 was not run"


def test_a_question_that_another_one_decides_as_well_is_no_exception_of_its_own() -> None:
    ranks = advisory(affected=["0.20.0"], unaffected=["0.16.0"], needs={"evaluate": ([True], [False])})
    both = {"evaluate": ([True], [False]), "resume": ([True], [False])}
    more = advisory(2, affected=["0.20.0"], unaffected=["0.16.0"], needs=both)
    found = said(FREE, ranks, more)
    assert found == "yes, except with an evaluation between steps (trains wrong); open, below: 1 more question"


def test_what_is_to_be_set_in_any_case_stands_beside_what_is_not_known() -> None:
    to_set = advisory(affected=["0.20.0"], unaffected=["0.16.0"], needs=OVERLAP, remedies=[OFF])
    near = advisory(2, affected=["0.99.0"], unaffected=["0.16.0"])
    found = said(FREE, to_set, near, overlap_comm=True)
    assert found == "not known: deepspeed 0.20.0 was not run; in any case turn overlap_comm off"
