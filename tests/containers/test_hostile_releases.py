"""Releases that use up or remove what their container has: the other releases are measured, and nothing is left of them."""

from __future__ import annotations

import pytest

from tests.builders.spoiling import spoiling
from tests.containers.projects import Engine, configure
from tests.offline.project import GOOD, Project
from tests.packages import build

#: What a container has of each; small, so that little is enough.
LIMITS = "scratch_bytes = 16777216\npids = 200\n"


#: Release -> what it does, and what its result says.
SPOILS = {
    "13.0.0": ("fill", "the disk is full"),
    "13.1.0": ("fork", "too many processes or threads run"),
    "13.2.0": ("remove_runs", "the run's folder was removed"),
}


@pytest.fixture(scope="module", autouse=True)
def releases(shared: Project) -> None:
    for version, (spoil, _) in SPOILS.items():
        build.build(shared.folder / "index", version, more=spoiling(spoil))


def test_what_a_release_does_to_its_container_is_no_verdict_and_costs_no_other_release(
    project: Project, docker_engine: Engine
) -> None:
    configure(project, docker_engine, GOOD, *SPOILS, limits=LIMITS)
    report = project.regress()
    assert report.cell(GOOD)["outcome"] == "passed"
    for version, (_, fault) in SPOILS.items():
        found = report.cell(version)
        assert found["outcome"] == "machine_fault", found
        assert fault in report.said.err
    assert report.json["findings"] == []
    assert report.code == 3
    assert docker_engine.containers(project.work) == []

    configure(project, docker_engine, GOOD, limits=LIMITS)
    assert project.regress("--fresh").code == 0
