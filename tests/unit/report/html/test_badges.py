"""Badges."""

from __future__ import annotations

import json

import msgspec
import pytest

from dsregress.advice import known_problems
from dsregress.advisories.advisory import FactCondition, RaisedError, Ruling
from dsregress.advisories.shipped import read_advisories
from dsregress.compare import Comparison
from dsregress.report.context import report_context
from dsregress.report.html.badges import Standing, endpoint, standings
from dsregress.report.release_verdicts import ReleaseVerdicts
from tests.builders.comparisons import comparison
from tests.builders.known_runs import QUARTER, compared, ran

ZERO_2 = "world_size=2,zero_stage=2"


def by_release(compared_: Comparison) -> dict[str, Standing]:
    context = report_context(compared_)
    return {one.release: one for one in standings(context, ReleaseVerdicts(context))}


def test_badges_are_one_for_each_scenario_and_stack() -> None:
    told = by_release(comparison())
    assert told["0.15.4"].message == "ok on 1 workload"
    assert told["0.15.4"].colour == "brightgreen"
    assert told["0.16.0"].message == "no: memory"
    assert told["0.17.0"].message == "no: crash"
    assert told["0.16.8"].colour == "yellow"
    assert told["0.18.9"].message == "not measured"
    badge = json.loads(endpoint(told["0.16.0"]))
    assert badge["schemaVersion"] == 1
    assert badge["color"] == "red"


def test_a_badge_names_the_advisory_that_knows_a_fault() -> None:
    told = by_release(compared(ran("0.18.2", QUARTER), ran("0.18.3", QUARTER, error=30)))
    assert (told["0.18.3"].message, told["0.18.3"].colour) == ("no: DSR-2026-0001", "red")
    unknown = by_release(compared(ran("0.18.2", QUARTER), ran("0.19.7", QUARTER, error=30)))
    assert (unknown["0.19.7"].message, unknown["0.19.7"].colour) == ("no: numerics", "red")


def test_a_badge_is_of_the_readers_job_and_not_of_the_processor_that_measured_it() -> None:
    """A fault of CPU ranks alone is against nobody with GPUs, nor are bytes of a small model that no advisory knows."""
    split = "RuntimeError: Output 0 of Split is a view and is being modified inplace. (torch/x.py:f)"
    told = by_release(compared(ran("0.19.8", ZERO_2), ran("0.18.8", ZERO_2, crash=split)))
    assert (told["0.18.8"].message, told["0.18.8"].colour) == ("ok on 1 workload", "brightgreen")
    other = by_release(compared(ran("0.19.8", ZERO_2), ran("0.18.8", ZERO_2, crash="ValueError: another (x.py:f)")))
    assert (other["0.18.8"].message, other["0.18.8"].colour) == ("no: crash", "red")


def test_a_measured_crash_counts_if_the_job_does_not_say_that_it_is_free_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's parameters do not state the fact on which its advisory depends."""
    message = "two groups of parameters share one weight, which is not allowed"
    (fault,) = [one for one in read_advisories() if one.id == "DSR-2026-0001"]
    known = msgspec.structs.replace(
        fault,
        conditions=(FactCondition(fact="tied_embeddings", shown=(True,), hidden=(False,)),),
        raises=(RaisedError(error="ValueError", message=message),),
        shown_by=(),
    )
    monkeypatch.setattr(known_problems, "read_advisories", lambda: (known,))
    told = by_release(compared(ran("0.18.2", ZERO_2), ran("0.18.3", ZERO_2, crash=f"ValueError: {message} (x.py:f)")))
    assert (told["0.18.3"].message, told["0.18.3"].colour) == ("no: DSR-2026-0001", "red")


def test_what_an_advisory_knows_and_calls_no_fault_is_not_against_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    (fault,) = [one for one in read_advisories() if one.id == "DSR-2026-0001"]
    change = msgspec.structs.replace(fault, ruling=Ruling.CHANGE)
    monkeypatch.setattr(known_problems, "read_advisories", lambda: (change,))
    told = by_release(compared(ran("0.18.2", QUARTER), ran("0.18.3", QUARTER, error=30)))
    assert (told["0.18.3"].message, told["0.18.3"].colour) == ("ok on 1 workload", "brightgreen")
