"""Fixtures of the whole job without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import http_indexes
from tests.offline.project import GOOD, VERSION, Project


@pytest.fixture
def project(shared: Project, tmp_path: Path) -> Project:
    """A project of that user without results, with the good release and the hungry one."""
    made = Project(folder=tmp_path, variables=shared.variables, work=shared.work)
    made.configure(GOOD, VERSION["hungry"])
    return made


@pytest.fixture
def dated(shared: Project, tmp_path: Path) -> Iterator[Project]:
    """A project whose index got the good release on 2025-01-01, the hungry one on 2025-02-20, and all others, of which tests
    add some, much later."""
    index = shared.folder / "index"
    versions = {file.name.removesuffix(".tar.gz").split("-")[1] for file in index.glob("tinyframe-*")}
    days = {GOOD: "2025-01-01", VERSION["hungry"]: "2025-02-20"}
    uploaded = {f"tinyframe-{version}": days.get(version, "2100-01-01") for version in versions}
    with http_indexes.served(index, uploaded) as served:
        configuration = tmp_path / "pip.conf"
        configuration.write_text(f"[global]\nindex-url = {served.url}\n")
        variables = {**shared.variables, "PIP_CONFIG_FILE": str(configuration)}
        made = Project(folder=tmp_path, variables=variables, work=shared.work)
        made.configure(GOOD, "latest")
        yield made
