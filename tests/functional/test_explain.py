"""Who holds the parameters that 0.16.4 holds through backward, found by the real command on the real releases."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.releases import BEFORE, FAULTY, NON_REENTRANT, cells, decoder_layers_bytes

Harness = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def explained(harness: Harness, checkpointing: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The faulty release against the one before it."""
    file = tmp_path_factory.mktemp("explain") / "who.json"
    cell = f"{FAULTY}/llama_zero3_backward/{NON_REENTRANT}/cpu"
    done = harness("explain", cell, "--against", BEFORE, "--json", str(file))
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_bytes())


def test_figures_are_the_same_to_the_byte_with_and_without_it(
    explained: dict[str, Any], checkpointing: dict[str, Any]
) -> None:
    measured = cells(checkpointing)[FAULTY, NON_REENTRANT]["metrics"]
    assert explained["moments"]
    for key, moment in explained["moments"].items():
        assert moment["bytes"] == measured[key] == sum(row["nbytes"] for row in moment["held"])


def test_what_is_held_more_is_gathered_by_the_hook_before_backward(explained: dict[str, Any]) -> None:
    moment = explained["moments"]["backward.device_retained_bytes"]
    more = [one for one in moment["difference"] if one["more_bytes"] > 0]
    assert {one["category"] for one in more} == {"gathered parameters"}
    assert sum(one["more_bytes"] for one in more) == decoder_layers_bytes("llama-tiny")
    assert all(any("pre_sub_module_backward_function" in caller for caller in one["via"]) for one in more)


def test_the_report_names_the_place(checkpointing: dict[str, Any]) -> None:
    (found,) = [
        found
        for found in checkpointing["findings"]
        if found["metric"] == "device_retained_bytes"
        and found["kind"] == "regression"
        and f"deepspeed{FAULTY}" in found["stack"]
        and found["relevant"]
    ]
    assert any("gathered parameters at deepspeed/runtime/zero/partition_parameters.py:" in e for e in found["evidence"])


def test_a_picture_of_both_is_drawn_from_what_is_stored(
    harness: Harness, explained: dict[str, Any], results: Path
) -> None:
    before = sorted(results.rglob("explained-*"))
    done = harness("explain", f"{FAULTY}/llama_zero3_backward/{NON_REENTRANT}/cpu", "--against", BEFORE, "--svg", "-")
    assert done.returncode == 0, done.stderr
    assert f"deepspeed {FAULTY}" in done.stdout
    assert done.stdout.startswith("<svg")
    assert sorted(results.rglob("explained-*")) == before
