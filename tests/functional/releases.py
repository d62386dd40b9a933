"""The releases that are measured, and reading what was measured of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsregress.config import settings, variables
from scenarios.models import SHAPES
from tests import ending
from tests.paths import ROOT

ENVIRONMENTS = settings.read_settings(start=ROOT).environments

#: The healthy release before the fault, one that has it, and the first healthy one after it.
BEFORE, FAULTY, AFTER = RELEASES = ("0.15.0", "0.16.4", "0.16.8")

LIMIT_S = 1800.0

Regress = Callable[..., dict[str, Any]]

NONE, REENTRANT, NON_REENTRANT = (f"gradient_checkpointing={way}" for way in ("none", "reentrant", "non_reentrant"))


def cells(report: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """(release, variant) -> cell."""
    versions = {stack["id"]: stack["versions"]["deepspeed"] for stack in report["stacks"]}
    return {(versions[cell["stack"]], cell["variant"]): cell for cell in report["cells"]}


def assert_passes(python: str, *selected: str, limit_s: float = LIMIT_S) -> str:
    """Tests of ours pass in an environment, with nothing there but what measured processes have; what pytest says."""
    ran = ending.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *selected],
        cwd=ROOT,
        env=variables.child_environment({"OMP_NUM_THREADS": "1"}),
        limit_s=limit_s,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
    return ran.stdout


def decoder_layers_bytes(model: str) -> int:
    """What the weights of all decoder layers take in bf16."""
    shape: dict[str, Any] = SHAPES[model]
    hidden, heads, kv_heads = shape["hidden_size"], shape["num_attention_heads"], shape["num_key_value_heads"]
    kv_size = hidden // heads * kv_heads
    attention = 2 * hidden * hidden + 2 * hidden * kv_size
    mlp = 3 * hidden * shape["intermediate_size"]
    norms = 2 * hidden
    return 2 * shape["num_hidden_layers"] * (attention + mlp + norms)
