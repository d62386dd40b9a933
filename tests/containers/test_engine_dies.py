"""A container engine that dies in the middle of a run: the machine's fault, and no result is lost."""

from __future__ import annotations

import pytest

from tests.containers import engine
from tests.containers.projects import LIMIT_S, Engine, configure
from tests.offline.project import GOOD, VERSION, Project, stored
from tests.offline.waiting import heard


def test_an_engine_that_dies_is_no_releases_fault_and_the_next_run_measures_the_rest(
    project: Project, docker_engine: Engine
) -> None:
    if docker_engine.folder is None:
        pytest.skip("the daemon that answers here is not one that a test may kill")
    configure(project, docker_engine, GOOD, VERSION["hanging"], VERSION["hungry"], timeout_s=LIMIT_S)
    with project.started("regress") as process:
        heard(process, "] 1.0.0  fit/base/cpu: passed", LIMIT_S)
        engine.kill(docker_engine.folder)
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3, err
    assert (
        "the container engine is gone" in err.splitlines()[-1]
        or "the Docker daemon does not respond" in err.splitlines()[-1]
    )
    assert "start it" in err.splitlines()[-1]
    outcomes = {r["cell"]["stack"]["versions"]["tinyframe"]: r["outcome"]["type"] for r in stored(project)}
    assert outcomes.pop(GOOD) == "passed"
    assert set(outcomes.values()) <= {"machine_fault"}

    while_gone = project.run("regress")
    assert (while_gone.code, while_gone.err.count("\n")) == (3, 1)
    assert "the Docker daemon does not respond" in while_gone.err

    engine.start(docker_engine.folder)
    configure(project, docker_engine, GOOD, VERSION["hungry"])
    report = project.regress()
    assert "; 1 are stored already" in report.said.err
    assert [report.cell(version)["outcome"] for version in (GOOD, VERSION["hungry"])] == ["passed", "passed"]
    assert report.code == 1
    assert docker_engine.containers(project.work) == []
