"""Fixtures of the whole job without a network: tinyframe's releases, in a folder that pip's configuration names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.builders import tiny_packages
from tests.offline.project import GOOD, NOT_INSTALLING, VERSION, Project
from tests.packages import build, wheelhouse
from tests.paths import ROOT

_BROKEN = "def build_wheel(*arguments, **more):\n    raise RuntimeError('nvcc is missing')\n"


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The user: their index, their pip configuration, their environments."""
    place = tmp_path_factory.mktemp("user")
    index = place / "index"
    build.build_all(index)
    tiny_packages.source_with_its_own_backend(index, "tinyframe", NOT_INSTALLING, _BROKEN)
    for version, behaviour in build.TRAINERS.items():
        tiny_packages.wheel(index, "tinytrainer", version, f"BEHAVIOUR = {behaviour!r}\n", ("tinyframe",))
    wheelhouse.fill(index, ["pytest", "pytest-benchmark"])
    configuration = place / "pip.conf"
    configuration.write_text(f"[global]\nno-index = true\nfind-links = {index}\n")
    temporary = place / "tmp"
    temporary.mkdir()
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "TMPDIR": str(temporary),
        "PYTHONPATH": str(ROOT),
        "PIP_CONFIG_FILE": str(configuration),
        "UV_CACHE_DIR": str(place / "uv"),
        "UV_NO_CONFIG": "1",
        "COLUMNS": "120",
    }
    return Project(folder=place, variables=variables, work=place / "work")


@pytest.fixture
def project(shared: Project, tmp_path: Path) -> Project:
    """A project of that user without results, with the good release and the hungry one."""
    made = Project(folder=tmp_path, variables=shared.variables, work=shared.work)
    made.configure(GOOD, VERSION["hungry"])
    return made
