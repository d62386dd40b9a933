"""Badges."""

from __future__ import annotations

import json

from dsregress.report.context import report_context
from dsregress.report.html.badges import endpoint, standings
from dsregress.report.html.workload_pages import WITHOUT_FINDING, soundness_by_pin
from tests.builders.comparisons import comparison


def test_badges_are_one_for_each_scenario_and_stack() -> None:
    seen = comparison()
    context = report_context(seen)
    sound = soundness_by_pin(context)[WITHOUT_FINDING]
    told = {standing.stack.rpartition("deepspeed")[2]: standing for standing in standings(context, sound)}
    assert told["0.15.4"].message == "ok on 1 workload"
    assert told["0.15.4"].colour == "brightgreen"
    assert told["0.16.0"].message == "worse: memory"
    assert told["0.17.0"].message == "worse: crash"
    assert told["0.16.8"].colour == "yellow"
    assert told["0.18.9"].message == "not measured"
    badge = json.loads(endpoint(told["0.16.0"]))
    assert badge["schemaVersion"] == 1
    assert badge["color"] == "red"
