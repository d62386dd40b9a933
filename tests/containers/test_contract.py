"""One launch contract: the same cells through every executor come to the same ends, with the same bytes."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.containers.conftest import LIMIT_S, Engine, configure
from tests.offline.conftest import NOT_INSTALLING
from tests.offline.project import GOOD, VERSION, Project, cell

#: Every way in which a release of tinyframe ends.
VERSIONS = (*(VERSION[b] for b in ("good", "hungry", "crashing", "not-importing", "dying", "out-of-memory")),)
ALL = (*VERSIONS, VERSION["hanging"], NOT_INSTALLING)

#: What a clock says, and what another patch release of Python may count otherwise.
_OF_THE_RUN = re.compile(r"(^|\.)(step_time_s|init_s|import_s|seconds|host_calls)$")


@pytest.fixture(scope="module")
def reports(shared: Project, docker_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Executor -> what `regress` reported on the same cells."""
    found = {}
    for executor in ("local", "docker"):
        project = Project(
            folder=tmp_path_factory.mktemp(executor),
            variables={**shared.variables, "DOCKER_HOST": docker_engine.address},
            work=shared.work,
            limit_s=LIMIT_S,
        )
        configure(project, docker_engine, *ALL, executor=executor, rounds=2, timeout_s=4)
        found[executor] = project.regress()
    return found


@pytest.mark.parametrize("executor", ["docker"])
def test_every_executor_comes_to_the_same_ends(reports: dict[str, Any], executor: str) -> None:
    ends = {
        name: [(c["id"], c["outcome"], c["stage"], c["signature"]) for c in report.json["cells"]]
        for name, report in reports.items()
    }
    assert ends[executor] == ends["local"]
    assert {one for _, one, _, _ in ends[executor]} == {"passed", "failed", "out_of_memory", "timed_out"}
    assert reports[executor].code == reports["local"].code == 1


@pytest.mark.parametrize("executor", ["docker"])
def test_every_executor_measures_the_same_bytes(reports: dict[str, Any], executor: str) -> None:
    def exact(report: Any) -> dict[str, Any]:
        return {
            c["id"]: {name: value for name, value in c["metrics"].items() if not _OF_THE_RUN.search(name)}
            for c in report.json["cells"]
        }

    assert exact(reports[executor]) == exact(reports["local"])
    assert exact(reports[executor])[cell(GOOD)]["backward.device_peak_bytes"] == 32_000


@pytest.mark.parametrize("executor", ["docker"])
def test_every_executor_finds_the_same_faults(reports: dict[str, Any], executor: str) -> None:
    def found(report: Any) -> list[tuple[str, ...]]:
        named = (
            (f["stack"], f["metric"], f["phase"], f["kind"], f["message"])
            for f in report.json["findings"]
            if f["metric"] not in ("host_calls", "step_time_s")
        )
        return sorted(named)

    assert found(reports[executor]) == found(reports["local"])
    assert len(found(reports[executor])) >= len(ALL) - 1


def test_the_same_code_is_measured_and_only_a_container_s_result_names_an_image(reports: dict[str, Any]) -> None:
    here, there = ({c["id"]: c for c in reports[name].json["cells"]} for name in ("local", "docker"))
    for name in (cell(GOOD), cell(VERSION["hungry"])):
        assert here[name]["code_sha256"] == there[name]["code_sha256"] != ""
        assert here[name]["lock_sha256"] == there[name]["lock_sha256"]
        assert here[name]["image"] == ""
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", there[name]["image"])
    assert there[cell(GOOD)]["image"] != there[cell(VERSION["hungry"])]["image"]
