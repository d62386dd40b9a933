"""A release that asks something of ours that it does not have is not to blame: the run says that the harness failed, ends
with 3, and measures the others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.offline.project import GOOD, Project, stored
from tests.packages import build

_IN_BACKWARD = """

def _backward(self, inputs, backward=Engine.backward):
    {call}
    return backward(self, inputs)


Engine.backward = _backward
"""

_BEAT = "from dsregress.probe.process.heartbeat import Heartbeat"

#: version -> what it calls, and what is said of it; a place of the harness's follows, or one of the release's
CASES = {
    "5.0.0": (
        _IN_BACKWARD.format(call=f"{_BEAT}\n    Heartbeat(print, enable_reconfigure=True)"),
        "TypeError: Heartbeat.__init__() got an unexpected keyword argument 'enable_reconfigure' (dsregress/probe/",
    ),
    "5.1.0": (
        _IN_BACKWARD.format(call=f"{_BEAT}\n    Heartbeat(print).reconfigure()"),
        "AttributeError: 'Heartbeat' object has no attribute 'reconfigure' (dsregress/probe/",
    ),
    "5.2.0": (
        "\n\nfrom vgpu.no_stand_in import StandIn\n\nStandIn('triton.runtime.driver.active').get_benchmarker()\n",
        "NoStandInError: triton.runtime.driver.active.get_benchmarker has no stand-in: leave out what needs it, or run on",
    ),
}
#: A release that calls the same, and goes on without.
COPING = "5.9.0"


@pytest.fixture(scope="module")
def user(shared: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same user with more releases in their index."""
    place = tmp_path_factory.mktemp("own-faults")
    index = place / "index"
    shutil.copytree(shared.folder / "index", index)
    for version, (code, _) in CASES.items():
        build.build(index, version, more=code)
    coping = (
        f"try:\n        {_BEAT}\n        Heartbeat(print, enable_reconfigure=True)\n    except TypeError:\n        pass"
    )
    build.build(index, COPING, more=_IN_BACKWARD.format(call=coping))
    configuration = place / "pip.conf"
    configuration.write_text(f"[global]\nno-index = true\nfind-links = {index}\n")
    return Project(
        folder=place, variables={**shared.variables, "PIP_CONFIG_FILE": str(configuration)}, work=shared.work
    )


@pytest.fixture
def project(user: Project, tmp_path: Path) -> Project:
    return Project(folder=tmp_path, variables=user.variables, work=user.work)


def test_what_of_ours_does_not_fit_a_release_is_the_harness_failing(project: Project) -> None:
    project.configure(GOOD, *CASES, COPING)
    report = project.regress()
    assert (report.code, report.json["exit_code"]) == (3, 3)
    assert not any(found["kind"] == "failed" for found in report.json["findings"])
    assert not any(report.findings(version) for version in (GOOD, *CASES))
    assert [report.cell(version)["outcome"] for version in (GOOD, COPING)] == ["passed", "passed"]
    last = report.said.err.splitlines()[-1]
    for version, (_, signature) in CASES.items():
        found = report.cell(version)
        assert (found["outcome"], found["stage"]) == ("failed", "harness")
        assert found["signature"].startswith(signature)
        assert f"{version} (fit/base/cpu): the harness failed: {signature}" in last

    assert {result["outcome"]["stage"] for result in stored(project) if result["outcome"]["type"] != "passed"} == {
        "harness"
    }
    again = project.regress()
    assert f"{len(CASES)} cells to run" in again.said.err
    assert again.code == 3


def test_a_baseline_that_ours_do_not_fit_is_no_failure_of_a_release_either(project: Project) -> None:
    project.configure("5.0.0", GOOD)
    report = project.regress()
    assert report.code == 3
    assert report.json["findings"] == []
    assert report.cell(GOOD)["outcome"] == "passed"
    assert "5.0.0 (fit/base/cpu): the harness failed: TypeError: Heartbeat" in report.said.err.splitlines()[-1]
