"""What the project is for: parameters that 0.16.4 holds through backward, found by measurement alone; and that what is
measured can be relied on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scenarios.models import SHAPES
from tests.functional.releases import (
    AFTER,
    BEFORE,
    FAULTY,
    NON_REENTRANT,
    NONE,
    REENTRANT,
    RELEASES,
    Regress,
    assert_passes,
    cells,
    decoder_layers_bytes,
)

ERRORS = ("loss_error", "gradient_norm_error", "parameter_error")


def held_after_backward(checkpointing: dict[str, Any]) -> dict[tuple[str, str], int]:
    return {key: cell["metrics"]["backward.device_retained_bytes"] for key, cell in cells(checkpointing).items()}


def test_every_cell_passes(checkpointing: dict[str, Any]) -> None:
    assert {key: cell["outcome"] for key, cell in cells(checkpointing).items()} == {
        (version, variant): "passed" for version in RELEASES for variant in (NONE, REENTRANT, NON_REENTRANT)
    }


def test_the_faulty_release_holds_exactly_the_decoder_layers_through_backward(checkpointing: dict[str, Any]) -> None:
    held = held_after_backward(checkpointing)
    assert held[FAULTY, NON_REENTRANT] - held[BEFORE, NON_REENTRANT] == decoder_layers_bytes("llama-tiny")


def test_the_healthy_releases_hold_no_more_than_the_baseline(checkpointing: dict[str, Any]) -> None:
    held = held_after_backward(checkpointing)
    assert held[AFTER, NON_REENTRANT] <= held[BEFORE, NON_REENTRANT]


@pytest.mark.parametrize("variant", [NONE, REENTRANT])
def test_other_ways_of_checkpointing_do_not_show_it(checkpointing: dict[str, Any], variant: str) -> None:
    held = held_after_backward(checkpointing)
    shape: dict[str, Any] = SHAPES["llama-tiny"]
    norms = (
        2 * shape["hidden_size"] * shape["num_hidden_layers"]
    )  # one of each layer stays if reentrant, with transformers 5
    assert held[FAULTY, variant] - held[BEFORE, variant] <= norms


def test_it_is_the_one_memory_regression_of_the_report(checkpointing: dict[str, Any]) -> None:
    memory = [
        found
        for found in checkpointing["findings"]
        if found["kind"] == "regression" and found["relevant"] and found["metric"].endswith("_retained_bytes")
    ]
    versions = {stack["id"]: stack["versions"]["deepspeed"] for stack in checkpointing["stacks"]}
    assert {(versions[f["stack"]], f["variant"], f["phase"]) for f in memory} == {(FAULTY, NON_REENTRANT, "backward")}
    (found,) = memory
    assert found["value"] - found["baseline_value"] == decoder_layers_bytes("llama-tiny")
    assert found["rank"] in (0, 1)
    assert (checkpointing["exit_code"], checkpointing["exit_code_seen"]) == (1, 1)


def test_it_is_one_problem_that_says_which_releases_have_it(checkpointing: dict[str, Any]) -> None:
    (leak,) = [problem for problem in checkpointing["problems"] if problem["kind"] == "leak"]
    assert [stack.rpartition("deepspeed")[2] for stack in leak["having"]] == [FAULTY]
    assert [stack.rpartition("deepspeed")[2] for stack in leak["free"]] == [BEFORE, AFTER]
    assert leak["release_to_use"].endswith(f"deepspeed{AFTER}")


def test_the_newest_release_without_the_fault_is_recommended_and_what_to_set_in_the_faulty_one(
    checkpointing: dict[str, Any], harness: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    releases = ",".join(RELEASES)
    options = ("--variant", NON_REENTRANT, "--deepspeed", releases, "--fail-on", "memory,crash", "--json", "-")
    done = harness("recommend", "llama_zero3_backward", *options)
    assert done.returncode == 0, done.stderr
    advice = json.loads(done.stdout)
    faulty = next(release for release in advice["releases"] if release["version"] == FAULTY)
    assert (advice["pick"], faulty["is_clean"]) == (AFTER, False)
    assert REENTRANT in [way["variant"] for way in faulty["ways"]]


def test_both_ranks_are_in_the_record_with_every_phase(checkpointing: dict[str, Any]) -> None:
    for cell in checkpointing["cells"]:
        assert {name.partition(".")[0] for name in cell["metrics"] if "." in name} == {
            "init",
            "forward",
            "backward",
            "step",
        }
        assert len(cell["rounds_s"]) == 2
        assert all(seconds > 0 for seconds in cell["rounds_s"])
        assert cell["metrics"]["backward.host_calls"] > 1000
        assert cell["collectives"]["backward"]


@pytest.mark.nightly
def test_every_variant_trains_as_plain_pytorch_does_but_for_the_faults_of_this_release(regress: Regress) -> None:
    variants = regress(
        *("--deepspeed", FAULTY, "--baseline", FAULTY, "--device", "cpu", "--rounds", "0", "--variant", "*"),
        *("--scenario", "llama_zero3_backward"),
    )
    told = {
        cell["variant"]: cell["signature"].partition(":")[0]
        if cell["outcome"] == "failed"
        else sorted(name for name in ERRORS if float(cell["metrics"].get(name, 0)) > 1)  # JSON has "inf" for infinity
        for cell in variants["cells"]
    }
    assert len(told) >= 40
    assert {variant: what for variant, what in told.items() if what} == {
        # every rank of a node's group starts from other weights
        "world_size=4,hpz_partition_size=2": ["gradient_norm_error", "loss_error", "parameter_error"],
        # gradients of the micro-batches before the last are lost
        "gradient_accumulation_steps=4,zero_stage=2,offload_optimizer=true": ["gradient_norm_error", "parameter_error"],
        "lora_rank=8,gradient_checkpointing=non_reentrant": "CheckpointError",
    }
    not_judged = {
        (cell["variant"], name)
        for cell in variants["cells"]
        if cell["outcome"] == "passed"
        for name in ERRORS
        if name not in cell["metrics"]
    }
    assert not_judged == {
        ("dtype=fp32,zero_stage=0", "gradient_norm_error"),  # the engine reports no norm
        ("infinite_gradient_step=1", "parameter_error"),  # its norm says that it is infinite, which is enough
        ("infinite_gradient_step=1,zero_stage=2", "parameter_error"),
    }


def test_the_same_cell_again_gives_the_same_bytes_and_calls(regress: Regress) -> None:
    options = (
        *("--deepspeed", FAULTY, "--baseline", FAULTY, "--device", "cpu", "--rounds", "0", "--fresh", "--no-explain"),
        *("--scenario", "llama_zero3_backward", "--variant", NON_REENTRANT, "--variant", "zero_stage=2"),
    )
    first, again = (cells(regress(*options)) for _ in range(2))
    assert len(again) == 2
    for key, cell in again.items():
        assert cell["session"] != first[key]["session"]
        exact = {name: value for name, value in first[key]["metrics"].items() if not name.endswith("_s")}
        assert {name: value for name, value in cell["metrics"].items() if not name.endswith("_s")} == exact


@pytest.mark.nightly
def test_transformers_own_trainer_trains_as_plain_pytorch_does(regress: Regress) -> None:
    report = regress(
        *("--deepspeed", FAULTY, "--baseline", FAULTY, "--device", "cpu", "--rounds", "0", "--variant", "*"),
        *("--scenario", "trainer_zero3"),
    )
    distances = {
        cell["variant"]: (cell["outcome"], max(cell["metrics"][name] for name in ERRORS)) for cell in report["cells"]
    }
    assert len(distances) >= 8
    assert {variant: found for variant, found in distances.items() if found[0] != "passed" or found[1] > 1} == {}


@pytest.mark.nightly
def test_a_trainer_that_divides_the_loss_twice_is_wrong_without_a_baseline(regress: Regress) -> None:
    """transformers 4.48 divides by all tokens of the step, and leaves it to DeepSpeed to divide by the micro-batches."""
    report = regress(
        *("--transformers", "4.48.3", "--baseline", "4.48.3", "--device", "cpu", "--rounds", "0"),
        *("--scenario", "trainer_zero3", "--variant", "base", "--variant", "gradient_accumulation_steps=1"),
    )
    wrong = {(f["variant"], f["metric"]) for f in report["findings"] if f["kind"] == "wrong" and f["metric"] in ERRORS}
    assert ("base", "gradient_norm_error") in wrong
    assert {variant for variant, _ in wrong} == {"base"}


@pytest.mark.nightly
def test_qwen_shows_it_as_well(regress: Regress) -> None:
    report = regress(
        *("--deepspeed", f"{BEFORE},{FAULTY}", "--baseline", BEFORE, "--device", "cpu", "--rounds", "0"),
        *("--scenario", "qwen_zero3_backward", "--variant", NON_REENTRANT, "--no-explain"),
    )
    versions = {stack["id"]: stack["versions"]["deepspeed"] for stack in report["stacks"]}
    found = {(versions[f["stack"]], f["metric"], f["phase"]) for f in report["findings"] if f["kind"] == "regression"}
    assert (FAULTY, "device_retained_bytes", "backward") in found


def test_a_simulated_cell_gives_the_same_bytes_twice(regress: Regress) -> None:
    options = ("--deepspeed", FAULTY, "--baseline", FAULTY, "--device", "sim", "--scenario", "llama_zero3_backward")
    variant = f"model=llama-tiny,sequence_length=64,{NON_REENTRANT}"
    first, second = (regress(*options, "--variant", variant, "--fresh")["cells"] for _ in range(2))
    assert (first[0]["outcome"], second[0]["outcome"]) == ("passed", "passed")
    exact = [{n: v for n, v in found[0]["metrics"].items() if not n.endswith("_s")} for found in (first, second)]
    assert exact[0] == exact[1]
    assert exact[0]["backward.device_peak_bytes"] > 0


def test_pytest_benchmark_reads_the_files_beside_the_results(checkpointing: dict[str, Any], results: Path) -> None:
    files = sorted(str(file) for file in results.rglob("*.benchmark.json"))
    assert len(files) >= len(checkpointing["cells"])
    compared = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "compare", *files[:2], "--columns=median,rounds"],
        capture_output=True,
        text=True,
        check=True,
        cwd=results,
    )
    assert "benchmark: 2 tests" in compared.stdout


@pytest.mark.parametrize("version", [FAULTY])
def test_scenarios_run_with_pytest_alone_in_an_environment(python_of: Callable[[str], str], version: str) -> None:
    test = f"scenarios/test_scenarios.py::test_scenario[llama_zero3_backward-{NON_REENTRANT}]"
    assert "1 passed" in assert_passes(python_of(version), test)
