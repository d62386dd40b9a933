"""Each framework that findings are reduced for has scripts, and its scenario of simplest values is one of its own."""

from __future__ import annotations

import pytest

from dsregress.probe import scenario
from dsregress.reproduce.composers import composer
from dsregress.reproduce.factors import SIMPLEST_OF, varied_in
from tests.paths import ROOT


@pytest.mark.parametrize(("framework", "name"), SIMPLEST_OF.items())
def test_a_framework_with_a_simplest_scenario_has_scripts(framework: str, name: str) -> None:
    simplest = scenario.load(ROOT / "scenarios" / f"{name}.py")
    assert simplest.framework == framework
    assert composer(framework).models


def test_what_trainer_decides_itself_is_not_varied() -> None:
    simplest = scenario.load(ROOT / "scenarios" / "minimal_trainer.py")
    varied = {factor.name for factor in varied_in(simplest.parameters)}
    assert {"zero_stage", "gradient_accumulation_steps", "dtype", "world_size"} <= varied
    assert not varied & {"objective", "decay_groups", "model_outputs", "integration", "backward_on", "zero_init"}
