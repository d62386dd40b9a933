"""Real ranks of a real release on several nodes of a Ray cluster, joined by the address of the first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.ray_cluster import Nodes, running
from tests.functional.releases import BEFORE, ENVIRONMENTS, FAULTY, NON_REENTRANT, Regress, cells
from tests.offline.project import Project
from tests.paths import ROOT


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Two nodes with a core each, so that a cell of two ranks has to span them."""
    variables = {**os.environ, "DSREGRESS_ENVIRONMENTS": ENVIRONMENTS}
    user = Project(folder=ROOT, variables=variables, work=Path(ENVIRONMENTS))
    with running(tmp_path_factory.mktemp("cluster"), user, nodes=2, cpus=1) as cluster:
        yield cluster


@pytest.mark.nightly
def test_ranks_that_span_nodes_measure_what_ranks_on_one_machine_do(
    regress: Regress, checkpointing: dict[str, Any], nodes: Nodes
) -> None:
    apart = regress(
        *("--executor", "ray", "--ray-address", nodes.address, "--no-explain", "--fresh"),
        *("--deepspeed", f"{BEFORE},{FAULTY}", "--baseline", BEFORE, "--device", "cpu", "--rounds", "2"),
        *("--scenario", "llama_zero3_backward", "--variant", NON_REENTRANT),
    )
    together = cells(checkpointing)
    for release in (BEFORE, FAULTY):
        here, there = together[release, NON_REENTRANT], cells(apart)[release, NON_REENTRANT]
        assert there["outcome"] == "passed"
        exact = {name: value for name, value in here["metrics"].items() if not name.endswith(("_s", ".seconds"))}
        assert {name: there["metrics"][name] for name in exact} == exact
        assert len(there["rounds_s"]) == 2
