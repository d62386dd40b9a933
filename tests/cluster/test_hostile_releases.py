"""Releases that leave processes on a node, or remove its folder of runs: no other release suffers, and nothing is left."""

from __future__ import annotations

from tests.builders.spoiling import spoiling
from tests.cluster.ray_cluster import LIMIT_S, Nodes, configure, servers
from tests.offline.project import GOOD, Project
from tests.offline.waiting import until
from tests.packages import build

#: Release -> what it does.
SPOILS = {"14.0.0": "remove_runs", "14.1.0": "leave_a_fork", "14.2.0": "fork_and_exit"}


def test_what_a_release_does_to_its_node_is_no_verdict_and_costs_no_other_release(
    project: Project, shared: Project, ray_cluster: Nodes
) -> None:
    for version, spoil in SPOILS.items():
        build.build(shared.folder / "index", version, more=spoiling(spoil))
    configure(project, ray_cluster, GOOD, *SPOILS)
    report = project.regress("--no-explain")
    outcomes = {version: report.cell(version)["outcome"] for version in (GOOD, *SPOILS)}
    assert outcomes.pop("14.0.0") == "machine_fault", report.said.err
    assert "the run's folder was removed" in report.said.err
    assert set(outcomes.values()) == {"passed"}
    # To look whether it has spoiled its node already takes each step two calls.
    assert all("more Python and C calls" in finding["message"] for finding in report.json["findings"])
    assert report.code == 3
    until(lambda: not servers(project), LIMIT_S)
    until(lambda: set(ray_cluster.used().values()) == {0.0}, LIMIT_S)
