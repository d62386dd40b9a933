"""Hooks of pytest: tests of measured code fork a process for each job, as the probe's server does, and like it spare forks
what was imported."""

from __future__ import annotations

import gc
import importlib.util
import os

import pytest

from tests.paths import SOURCE


def pytest_configure(config: pytest.Config) -> None:
    # Collections in a fork, of which a meter makes one for each phase, then walk only what the job itself makes: with torch
    # and DeepSpeed imported, a third of the processor time of a tiny job.
    os.register_at_fork(after_in_child=gc.freeze)
    if importlib.util.find_spec("torch") is not None:  # in a measured environment, where this project is not installed
        os.environ["PYTHONPATH"] = str(SOURCE)


def pytest_collection_finish() -> None:
    gc.freeze()  # what the test modules have imported, for tests that run here
