"""What can be configured together."""

from __future__ import annotations

import pytest

from dsregress.probe import scenario
from dsregress.reproduce import cells
from dsregress.reproduce.factors import SIMPLEST_OF
from dsregress.reproduce.requirements import is_valid
from tests.paths import ROOT


@pytest.mark.parametrize("name", SIMPLEST_OF.values())
def test_each_simplest_job_can_be_configured(name: str) -> None:
    """Else nothing beside it would be tried: a job by Trainer has a loss of its own, and no choice of a model's outputs."""
    base = cells.base_parameters(scenario.load(ROOT / "scenarios" / f"{name}.py"))
    assert is_valid(base)
    assert is_valid({**base, "gradient_accumulation_steps": 2})
    assert not is_valid({**base, "offload_optimizer": True, "zero_stage": 0})
