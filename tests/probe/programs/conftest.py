"""A folder for a program's files, in the surroundings that measured processes have."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.probe.border.surroundings import ENVIRONMENT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.probe.programs import adapter  # imports torch

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    adapter.preload("cpu")
