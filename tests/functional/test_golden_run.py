"""No figure moves under an unchanged measuring version: the golden run, by real releases (see `tests.golden_run`)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.store import Store
from harness.store.measuring import version_history
from tests.functional.releases import FAULTY
from tests.golden_files import ACCEPT, Golden
from tests.golden_run import FILE, GoldenRun, complaints, golden_run, read_golden_run

#: Scenario, variant and device mode. The adapters, in the device modes that they have scenarios of; seconds each.
CELLS = (
    ("llama_zero3_backward", "base", "cpu"),  # deepspeed
    ("minimal_training", "world_size=2,dtype=bf16,zero_stage=2,gradient_accumulation_steps=2,lora_rank=8", "cpu"),
    ("orz_qwen2_5_1_5b_ppo", "base", "cpu"),  # deepspeed_jobs
    ("trainer_zero3", "base", "cpu"),  # trainer
    ("deepspeed_features", "world_size=2", "cpu"),  # program
    ("llama3_70b_zero3", "base", "sim"),  # deepspeed
    ("llamafactory_dpo_v100", "base", "sim"),  # deepspeed_jobs
    ("deepspeed_features", "feature=mics", "sim"),  # program, on the virtual GPU
)

Harness = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def measured(harness: Harness, tmp_path_factory: pytest.TempPathFactory) -> GoldenRun:
    """The golden run, measured now."""
    folder = tmp_path_factory.mktemp("golden") / "results"
    for scenario, variant, device in CELLS:
        of_cell = ("--scenario", scenario, "--variant", variant, "--device", device)
        done = harness(
            *("regress", "--deepspeed", FAULTY, "--baseline", FAULTY, "--results", str(folder)),
            *(*of_cell, "--rounds", "0", "--no-explain"),
        )
        assert done.returncode == 0, done.stderr
    return golden_run(Store(str(folder)).load().results, version_history())


def test_no_figure_moves_under_an_unchanged_measuring_version(measured: GoldenRun, golden: Golden) -> None:
    by_hand, by_accepting = complaints(read_golden_run(), measured, version_history())
    if by_hand or (by_accepting and not golden.accept):
        pytest.fail("\n".join([*by_hand, *(f"{line}; to write it: {ACCEPT}" for line in by_accepting)]))
    golden(Path(FILE).name, measured.encode())
