"""One launch contract: the same cells through every executor come to the same ends, with the same bytes."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.ray_cluster import configure as configure_on_nodes
from tests.containers.projects import LIMIT_S, Engine, configure
from tests.offline.project import GOOD, NOT_INSTALLING, VERSION, Project, cell

#: Every way in which a release of tinyframe ends.
VERSIONS = (*(VERSION[b] for b in ("good", "hungry", "crashing", "not-importing", "dying", "out-of-memory")),)
ALL = (*VERSIONS, VERSION["hanging"], NOT_INSTALLING)

#: What a clock says, and what another patch release of Python may count otherwise.
_OF_THE_RUN = re.compile(r"(^|\.)(step_time_s|step_processor_s|init_s|import_s|seconds|host_calls)$")


Reported = Callable[[str], Any]


@pytest.fixture(scope="module")
def reported(request: pytest.FixtureRequest, shared: Project, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """Executor -> what `regress` reported on the same cells there. Where that cannot be had, the test is skipped."""

    @functools.cache
    def of(executor: str) -> Any:
        folder = tmp_path_factory.mktemp(executor)
        project = Project(folder=folder, variables=shared.variables, work=shared.work, limit_s=LIMIT_S)
        values: dict[str, Any] = {"rounds": 2, "timeout_s": 4}
        if executor == "docker":
            engine: Engine = request.getfixturevalue("docker_engine")
            project = dataclasses.replace(project, variables={**shared.variables, "DOCKER_HOST": engine.address})
            configure(project, engine, *ALL, **values)
        elif executor == "ray":
            configure_on_nodes(project, request.getfixturevalue("ray_cluster"), *ALL, **values)
        else:
            project.configure(*ALL, executor=executor, **values)
        return project.regress()

    return of


@pytest.mark.parametrize("executor", ["docker", "ray"])
def test_every_executor_comes_to_the_same_ends(reported: Reported, executor: str) -> None:
    def ends(report: Any) -> list[tuple[str, ...]]:
        return [(c["id"], c["outcome"], c["stage"], c["signature"]) for c in report.json["cells"]]

    assert ends(reported(executor)) == ends(reported("local"))
    assert {one for _, one, _, _ in ends(reported(executor))} == {"passed", "failed", "out_of_memory", "timed_out"}
    assert reported(executor).code == reported("local").code == 1


@pytest.mark.parametrize("executor", ["docker", "ray"])
def test_every_executor_measures_the_same_bytes(reported: Reported, executor: str) -> None:
    def exact(report: Any) -> dict[str, Any]:
        return {
            c["id"]: {name: value for name, value in c["metrics"].items() if not _OF_THE_RUN.search(name)}
            for c in report.json["cells"]
        }

    assert exact(reported(executor)) == exact(reported("local"))
    assert exact(reported(executor))[cell(GOOD)]["backward.device_peak_bytes"] == 32_000


@pytest.mark.parametrize("executor", ["docker", "ray"])
def test_every_executor_finds_the_same_faults(reported: Reported, executor: str) -> None:
    def found(report: Any) -> list[tuple[str, ...]]:
        named = (
            (f["stack"], f["metric"], f["phase"], f["kind"], f["message"])
            for f in report.json["findings"]
            if f["metric"] not in ("host_calls", "step_time_s", "step_processor_s")
        )
        return sorted(named)

    assert found(reported(executor)) == found(reported("local"))
    assert len(found(reported(executor))) >= len(ALL) - 1


def test_the_same_code_is_measured_and_only_a_container_s_result_names_an_image(reported: Reported) -> None:
    here, there = ({c["id"]: c for c in reported(name).json["cells"]} for name in ("local", "docker"))
    for name in (cell(GOOD), cell(VERSION["hungry"])):
        assert here[name]["code_sha256"] == there[name]["code_sha256"] != ""
        assert here[name]["lock_sha256"] == there[name]["lock_sha256"]
        assert here[name]["image"] == ""
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", there[name]["image"])
    assert there[cell(GOOD)]["image"] != there[cell(VERSION["hungry"])]["image"]
