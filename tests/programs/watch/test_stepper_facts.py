"""What is read off an optimizer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from dsregress.programs.watch import stepper_facts  # noqa: E402


def test_bits_of_a_weight_are_those_that_the_optimizer_steps() -> None:
    whole, half = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False, dtype=torch.bfloat16)
    optimizers = [torch.optim.SGD(model.parameters()) for model in (whole, half, torch.nn.Sequential(whole, half))]
    assert [stepper_facts.weight_bits(optimizer) for optimizer in optimizers] == [32, 16, 24]


def test_an_optimizer_whose_groups_are_empty_has_none() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))])
    optimizer.param_groups[0]["params"] = []
    assert stepper_facts.weight_bits(optimizer) is None


def test_the_dtypes_of_a_model_begin_with_that_of_the_most_weights() -> None:
    half = torch.nn.Linear(64, 64, dtype=torch.float16)
    whole = torch.nn.Linear(8, 64)
    assert stepper_facts.weight_dtypes(torch.nn.Sequential(half)) == "float16"
    assert stepper_facts.weight_dtypes(torch.nn.Sequential(whole, half)) == "float16, float32"
    assert stepper_facts.weight_dtypes(torch.nn.Sequential(torch.nn.Linear(2, 2), half)) == "float16"
    for parameter in whole.parameters():  # as ZeRO-3 partitions it
        parameter.ds_numel, parameter.data = parameter.numel() * 100, torch.empty(0)
    assert stepper_facts.weight_dtypes(torch.nn.Sequential(whole, half)) == "float32, float16"


def test_what_is_trained_is_counted_by_names_without_numbers() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2))
    layers[2].requires_grad_(False)
    assert stepper_facts.trained_weights(layers) == {"*.weight": 2 * 2 + 2 * 2, "*.bias": 2}


def test_what_fsdp1_has_flattened_is_not_known() -> None:
    layer = torch.nn.Linear(2, 2)
    layer.weight._fsdp_flattened = True
    assert stepper_facts.trained_weights(layer) == {}
