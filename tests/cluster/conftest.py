"""Fixtures of the tests on a real Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.ray_cluster import LIMIT_S, Nodes, configure, running
from tests.offline.conftest import shared as shared
from tests.offline.project import GOOD, VERSION, Project


@pytest.fixture(scope="session")
def ray_cluster(shared: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Two nodes that stay for all tests which kill none."""
    with running(tmp_path_factory.mktemp("cluster"), shared) as cluster:
        yield cluster


@pytest.fixture
def project(shared: Project, ray_cluster: Nodes, tmp_path: Path) -> Project:
    """A project whose cells run on the cluster."""
    made = Project(folder=tmp_path, variables=shared.variables, work=ray_cluster.folder, limit_s=LIMIT_S)
    configure(made, ray_cluster, GOOD, VERSION["hungry"])
    return made
