"""What is read off an optimizer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.programs.watch import stepper_facts  # noqa: E402


def test_bits_of_a_weight_are_those_that_the_optimizer_steps() -> None:
    whole, half = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False, dtype=torch.bfloat16)
    optimizers = [torch.optim.SGD(model.parameters()) for model in (whole, half, torch.nn.Sequential(whole, half))]
    assert [stepper_facts.weight_bits(optimizer) for optimizer in optimizers] == [32, 16, 24]


def test_an_optimizer_whose_groups_are_empty_has_none() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))])
    optimizer.param_groups[0]["params"] = []
    assert stepper_facts.weight_bits(optimizer) is None
