"""What upstream knows: entries that are complete, and a finding that is one of them."""

from __future__ import annotations

from typing import Any

import pytest

from dsregress.bisect.questions import Question
from dsregress.probe import scenario
from dsregress.reproduce.factors import SIMPLEST
from dsregress.reproduce.upstream import UpstreamProblem, known, problem_of
from tests.paths import ROOT

MINIMAL = scenario.load(ROOT / "scenarios" / f"{SIMPLEST}.py").parameters
NORM = Question("gradient_norm_error")


@pytest.mark.parametrize("problem", known(), ids=lambda problem: problem.what)
def test_each_entry_has_an_address_and_parameters_of_the_simplest_scenario(problem: UpstreamProblem) -> None:
    assert problem.addresses
    assert all(one.startswith("https://github.com/") for one in problem.addresses)
    assert problem.needs.keys() <= MINIMAL.keys()


@pytest.mark.parametrize(
    ("version", "question", "changes", "number"),
    [
        ("0.18.2", NORM, {"zero_stage": 2, "gradient_accumulation_steps": 4}, "7718"),
        (
            "0.18.3",
            NORM,
            {"zero_stage": 2, "gradient_accumulation_steps": 4},
            "",
        ),  # a model of one output, after it ended
        ("0.18.3", NORM, {"zero_stage": 2, "gradient_accumulation_steps": 4, "model_outputs": "all"}, "7665"),
        ("0.16.4", NORM, {"zero_stage": 2, "gradient_accumulation_steps": 4, "offload_optimizer": True}, "7967"),
        ("0.19.3", Question("parameter_error"), {"gradient_clipping": None}, "8068"),
        ("0.17.6", Question("outcome", "", "AttributeError: 'Linear'"), {"zero_stage": 3}, ""),
        ("0.16.8", NORM, {"zero_stage": 2, "gradient_accumulation_steps": 4}, ""),  # before it began
        ("0.18.3", Question("loss_error"), {"zero_stage": 2, "gradient_accumulation_steps": 4}, ""),
    ],
)
def test_a_finding_is_known_by_its_release_its_metric_and_what_it_needs(
    version: str, question: Question, changes: dict[str, Any], number: str
) -> None:
    found = problem_of("deepspeed", version, question, {**MINIMAL, **changes})
    assert (found is None) == (not number)
    assert found is None or number in " ".join(found.addresses)
