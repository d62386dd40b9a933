"""No figure moves under an unchanged measuring version: the golden run, by real releases (see `tests.golden_run`)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dsregress.store import Store
from dsregress.store.measuring_versions import version_history
from tests.functional.releases import FAULTY
from tests.golden_files import Golden
from tests.golden_run import ACCEPT_FIGURES, FILE, GoldenRun, complaints, golden_run, read_golden_run

Harness = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def measured(harness: Harness, tmp_path_factory: pytest.TempPathFactory) -> GoldenRun:
    """The golden run, measured now."""
    folder = str(tmp_path_factory.mktemp("golden") / "results")
    # Not the default stack: the figures stay when that moves.
    stack = ("--stack", "transformers-4", "--deepspeed", FAULTY, "--baseline", FAULTY)
    options = ("--select", "golden-run", "--rounds", "0", "--no-explain", "--results", folder)
    done = harness("regress", *stack, *options)
    assert done.returncode in (0, 1), done.stderr  # the release has a fault, and that is a finding
    return golden_run(Store(folder).load().results, version_history())


def test_no_figure_moves_under_an_unchanged_measuring_version(measured: GoldenRun, golden: Golden) -> None:
    by_hand, by_accepting = complaints(read_golden_run(), measured, version_history())
    if by_hand or (by_accepting and not golden.accept):
        pytest.fail("\n".join([*by_hand, *(f"{line}; to write it: {ACCEPT_FIGURES}" for line in by_accepting)]))
    golden(Path(FILE).name, measured.encode())
