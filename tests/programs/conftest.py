"""A folder for a program's files, in the surroundings that measured processes have."""

from __future__ import annotations

import contextlib
import importlib
import threading
from pathlib import Path

import pytest

from dsregress.probe.border.surroundings import ENVIRONMENT
from tests.measured import pytest_collection_finish, pytest_configure

__all__ = ["pytest_collection_finish", "pytest_configure"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsregress.programs import program_adapter  # imports torch

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    program_adapter.preload("cpu")


@pytest.fixture(autouse=True, scope="session")
def no_lock_shared_by_ranks() -> None:
    """Ranks are forked from here, and those that are left when one fails are killed: a lock that tqdm had made here by then,
    for all processes, would stay held for ever."""
    with contextlib.suppress(ImportError):
        importlib.import_module("tqdm").tqdm.set_lock(threading.RLock())
