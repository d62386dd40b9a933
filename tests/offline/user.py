"""The user whose projects the tests of whole commands run: their index, their pip configuration, their environments."""

from __future__ import annotations

import os
from pathlib import Path

from tests.builders import tiny_packages
from tests.offline.project import NOT_INSTALLING, Project
from tests.packages import build, wheelhouse
from tests.paths import SOURCE

_BROKEN = "def build_wheel(*arguments, **more):\n    raise RuntimeError('nvcc is missing')\n"


def make(place: Path) -> Project:
    """tinyframe's releases in a folder that pip's configuration names; no network."""
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
        "PYTHONPATH": str(SOURCE),
        "PIP_CONFIG_FILE": str(configuration),
        "UV_CACHE_DIR": str(place / "uv"),
        "UV_NO_CONFIG": "1",
        "COLUMNS": "120",
    }
    return Project(folder=place, variables=variables, work=place / "work")
