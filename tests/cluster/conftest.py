"""Fixtures of the tests on a real Ray cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.ray_cluster import LIMIT_S, Nodes, configure
from tests.offline.project import GOOD, VERSION, Project


@pytest.fixture
def project(shared: Project, ray_cluster: Nodes, tmp_path: Path) -> Project:
    """A project whose cells run on the cluster."""
    made = Project(folder=tmp_path, variables=shared.variables, work=ray_cluster.folder, limit_s=LIMIT_S)
    configure(made, ray_cluster, GOOD, VERSION["hungry"])
    return made
