"""Fixtures of the whole job without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.offline.project import GOOD, VERSION, Project


@pytest.fixture
def project(shared: Project, tmp_path: Path) -> Project:
    """A project of that user without results, with the good release and the hungry one."""
    made = Project(folder=tmp_path, variables=shared.variables, work=shared.work)
    made.configure(GOOD, VERSION["hungry"])
    return made
