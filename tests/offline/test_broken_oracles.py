"""No release passes without its judges: an oracle that breaks is the harness failing, and one that does not cover a job is
named."""

from __future__ import annotations

import shutil

import pytest

from tests.offline.project import GOOD, SCENARIOS, VERSION, Project, Report, cell

_ADAPTER = """
from dsregress.probe.oracles.unbroken import NotCoveredError
from tinyframe.adapter import *
from tinyframe.adapter import judge

def {oracle}(*_):
    raise {error}
"""


def measured(project: Project, oracle: str, error: str) -> Report:
    """Two releases, by an adapter whose oracle raises an error."""
    scenarios = project.folder / "scenarios"
    shutil.copytree(SCENARIOS, scenarios, ignore=shutil.ignore_patterns("__pycache__"))
    (scenarios / "_judged.py").write_text(_ADAPTER.format(oracle=oracle, error=error))
    fit = scenarios / "fit.py"
    fit.write_text(fit.read_text().replace('"tinyframe.adapter"', '"scenarios._judged"'))
    project.configure(GOOD, VERSION["new-default"], scenarios=str(scenarios))
    return project.regress("--fail-on", "memory,numerics,crash")


@pytest.mark.parametrize(("oracle", "called"), [("memory", "ideal"), ("numerics", "judge")])
def test_a_broken_oracle_is_no_pass(project: Project, oracle: str, called: str) -> None:
    report = measured(project, called, "KeyError('hidden_size')")
    broke = f"the {oracle} oracle broke: KeyError: 'hidden_size'"
    assert report.code == 3
    assert report.json["findings"] == []
    for version in (GOOD, VERSION["new-default"]):
        found = report.cell(version)
        assert (found["outcome"], found["stage"]) == ("failed", "harness")
        assert found["signature"].startswith(f"HarnessFault: {broke}")
    assert broke in report.said.err.splitlines()[-1]


def test_a_job_that_an_oracle_does_not_cover_is_measured_and_the_report_says_so(project: Project) -> None:
    report = measured(project, "ideal", "NotCoveredError('of one engine alone')")
    assert report.code == 0
    assert report.json["not_judged"] == [
        {
            "oracle": "memory",
            "reason": "of one engine alone",
            "cells": [cell(GOOD), cell(VERSION["new-default"])],
        }
    ]
