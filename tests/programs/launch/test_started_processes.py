"""Processes that a program starts itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

from tests.paths import SOURCE


def test_what_watches_them_is_imported_where_nothing_of_torch_was() -> None:
    subprocess.run(
        [sys.executable, "-c", "import dsregress.programs.launch.started_processes"],
        cwd=SOURCE,
        check=True,
        timeout=120,
    )
