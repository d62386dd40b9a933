"""The answers are public: what began with DeepSpeed 0.16.0 ended with 0.16.8. They must come out of measurement alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.releases import AFTER, BEFORE, FAULTY

Harness = Callable[..., subprocess.CompletedProcess[str]]

WORKLOAD = (
    *("--scenario", "llama_zero3_backward", "--device", "sim"),
    *("--variant", "gradient_checkpointing=non_reentrant,model=qwen2.5-0.5b"),
)


def bisect(harness: Harness, folder: Path, *arguments: str) -> dict[str, Any]:
    """Run ``bisect`` and return what it found among the releases."""
    file = folder / "bisect.json"
    done = harness("bisect", *arguments, *WORKLOAD, "--json", str(file))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(file.read_bytes())["courses"][0]
    return found


def sought(course: dict[str, Any]) -> tuple[str, str]:
    """The neighbours between which the change lies that was sought."""
    change = next(one for one in course["changes"] if one["to"] == course["to"])
    assert change["exact"]
    return change["before"], change["after"]


@pytest.mark.nightly
def test_the_releases_that_began_and_ended_it_are_found_in_nine_runs_though_both_ends_are_good(
    harness: Harness, tmp_path: Path
) -> None:
    course = bisect(harness, tmp_path, f"{BEFORE}..{AFTER}")
    assert sought(course) == ("0.15.4", "0.16.0")
    assert [(one["before"], one["after"], one["to"]) for one in course["changes"] if one["exact"]] == [
        ("0.15.4", "0.16.0", "bad"),
        ("0.16.7", "0.16.8", "good"),
    ]
    assert course["metric"] == "backward.device_retained_bytes"
    assert len(course["probes"]) == 14
    assert course["runs"] <= 9
    assert any("in _pre_forward_module_hook" in site for site in course["sites"])
    assert any("runtime/zero/parameter_offload.py" in line for line in course["files"][:3])


def test_the_release_that_ended_it_is_found(harness: Harness, tmp_path: Path) -> None:
    course = bisect(harness, tmp_path, "--bad", FAULTY, "--good", AFTER, "--fixed")
    assert sought(course) == ("0.16.7", "0.16.8")
