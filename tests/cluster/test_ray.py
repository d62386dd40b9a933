"""Cells on the nodes of a real Ray cluster."""

from __future__ import annotations

import itertools
import os
import signal
import socket
from collections import Counter
from pathlib import Path

import pytest

from tests.cluster.ray_cluster import LIMIT_S, Nodes, configure, running, servers
from tests.offline.project import GOOD, VERSION, Project, stored, without_times
from tests.offline.waiting import heard, until

SEVERAL = tuple(VERSION[behaviour] for behaviour in ("good", "hungry", "wrong", "crashing", "busy", "new-default"))
TWO_WORKLOADS = ["fit/base/cpu", "fit/gradient_accumulation_steps=3/cpu"]


def built(cluster: Nodes) -> dict[str, float]:
    """Every whole environment on the nodes -> when it was made."""
    markers = cluster.folder.glob("node-*/envs/*/dsregress.json")
    return {file.parent.relative_to(cluster.folder).as_posix(): file.stat().st_mtime for file in markers}


def test_environments_are_built_once_on_each_node_that_needs_them_and_kept(
    project: Project, ray_cluster: Nodes
) -> None:
    before = built(ray_cluster)
    own = tuple(VERSION[behaviour] for behaviour in ("wrong", "busy", "new-default"))  # which nothing else runs there
    configure(project, ray_cluster, *own, rounds=2, select=TWO_WORKLOADS)
    first = project.regress("--no-explain")
    assert {c["outcome"] for c in first.json["cells"]} == {"passed"}
    after = {place: made for place, made in built(ray_cluster).items() if place not in before}
    assert {Path(place).parts[0] for place in after} == {"node-0", "node-1"}
    second = project.regress("--no-explain", "--fresh")
    assert {place: built(ray_cluster)[place] for place in after} == after
    assert without_times(second.json) == without_times(first.json)


def test_a_timed_session_holds_all_of_its_node(project: Project, ray_cluster: Nodes) -> None:
    configure(project, ray_cluster, GOOD, VERSION["hungry"], rounds=40, select=TWO_WORKLOADS[:1])
    seen: list[dict[str, float]] = []

    def ended() -> bool:
        seen.append(ray_cluster.used())
        return process.poll() is not None

    with project.started("regress", "--no-explain") as process:
        heard(process, "cells to run", LIMIT_S)  # environments are built where there is room
        until(ended, LIMIT_S)
    # Ray says late that what built environments has ended.
    of_session = itertools.dropwhile(lambda used: set(used.values()) != {0.0, 2.0}, seen)
    states = [
        (state, len([*run])) for state, run in itertools.groupby(tuple(sorted(one.values())) for one in of_session)
    ]
    # Ray tries nodes for moments before it settles on one.
    assert max(states, key=lambda one: one[1])[0] == (0.0, 2.0), f"one workload holds one node: {states}"
    assert {cpus for state, _ in states for cpus in state} == {0.0, 2.0}, f"a node is held whole: {states}"


def test_a_node_is_lost_and_every_result_arrives_once(shared: Project, tmp_path: Path) -> None:
    with running(tmp_path / "cluster", shared) as cluster:
        project = Project(folder=tmp_path, variables=shared.variables, work=cluster.folder, limit_s=LIMIT_S)
        configure(project, cluster, *SEVERAL, rounds=30, select=TWO_WORKLOADS)
        report = tmp_path / "report.json"
        with project.started("regress", "--no-explain", "--json", str(report)) as process:
            said = heard(process, "failed in backward", LIMIT_S)  # a cell has ended: sessions are on
            cluster.kill(0)
            said += process.communicate(timeout=LIMIT_S)[1]
        assert process.returncode == 1, said
        assert "its machine was lost; running again elsewhere" in said
        cells = [result["cell"] for result in stored(project)]
        arrived = Counter((cell["stack"]["versions"]["tinyframe"], cell["variant"]) for cell in cells)
        assert len(arrived) == len(SEVERAL) * 2
        assert set(arrived.values()) == {1}
        assert all(len(r["record"]["round_s"]) == 30 for r in stored(project) if r["outcome"]["type"] == "passed")
    assert project.processes() == []


@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_nothing_behind_and_keeps_what_was_measured(
    project: Project, ray_cluster: Nodes, signalled: signal.Signals
) -> None:
    configure(project, ray_cluster, VERSION["crashing"], VERSION["hanging"], timeout_s=600)
    with project.started("regress", "--no-explain") as process:
        until(lambda: stored(project), LIMIT_S)
        until(lambda: servers(project), LIMIT_S)
        os.kill(process.pid, signalled)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[signalled]
    until(lambda: not servers(project), LIMIT_S)
    until(lambda: set(ray_cluster.used().values()) == {0.0}, LIMIT_S)
    assert [result["outcome"]["type"] for result in stored(project)] == ["failed"]


def test_ranks_of_one_cell_span_nodes(project: Project, ray_cluster: Nodes) -> None:
    configure(project, ray_cluster, GOOD, rounds=3)
    together = project.regress("--no-explain")
    configure(project, ray_cluster, GOOD, rounds=3, ray="ranks_per_node = 1")
    apart = project.regress("--no-explain", "--fresh")
    assert without_times(apart.json) == without_times(together.json)
    (record,) = [result["record"] for result in stored(project) if "-2" in result["session"] or True][:1]
    assert [rank["rank"] for rank in record["ranks"]] == [0, 1]
    assert len(apart.cell(GOOD)["rounds_s"]) == 3


def test_a_fault_on_one_of_several_nodes_is_the_cell_s_end(project: Project, ray_cluster: Nodes) -> None:
    configure(project, ray_cluster, GOOD, VERSION["out-of-memory"], ray="ranks_per_node = 1")
    found = project.regress("--no-explain").cell(VERSION["out-of-memory"])
    assert (found["outcome"], found["stage"]) == ("out_of_memory", "backward")


# --- what a person is told --------------------------------------------------------------------------------------------


def test_where_ray_is_not_installed_it_says_how_to(project: Project, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "ray.py").write_text("raise ImportError(\"No module named 'ray'\")\n")
    said = project.run("regress", PYTHONPATH=f"{hidden}:{project.variables['PYTHONPATH']}")
    assert said.code == 3
    assert said.err.splitlines()[-1] == (
        "dsregress: error: --executor ray: Ray is not installed: No module named 'ray'; pip install 'dsregress[ray]'"
    )


def test_where_no_cluster_answers_it_says_so(project: Project) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    said = project.run("regress", "--ray-address", address)
    assert said.code == 3
    assert said.err.splitlines()[-1] == (
        f"dsregress: error: ray {address}: Ray does not respond: Connection refused; "
        "start the head (ray start --head --port=6379), and check --ray-address"
    )


def test_what_is_no_address_is_said_to_be_none(project: Project) -> None:
    said = project.run("regress", "--ray-address", "head")
    assert said.code == 2
    assert said.err.splitlines()[-1] == (
        "dsregress: error: --ray-address: not an address: 'head'; write HOST:PORT, or ray://HOST:PORT"
    )


def test_where_no_node_has_what_a_cell_needs_it_says_what(project: Project, ray_cluster: Nodes) -> None:
    configure(project, ray_cluster, GOOD, rounds=2, ray="wait_s = 1\n[tool.dsregress.ray.resources]\ncpu = {A100 = 1}")
    said = project.run("regress")
    assert said.code == 3
    assert said.err.splitlines()[-1] == (
        f"dsregress: error: ray {ray_cluster.address}: no node in the cluster has 2 CPUs and 1 A100; "
        "start more nodes (ray start --address=HEAD), or select other cells; `ray status` lists the resources"
    )
