"""What the values between the parts say of themselves."""

from __future__ import annotations

from harness.model import differing_parameters, split_workload

SMALL = {"model": "small", "shape": {"hidden_size": 8}}


def test_parameters_that_differ_are_named() -> None:
    assert differing_parameters({"model": "small", "a": 1}, {"model": "small", "b": 1}) == ["a", "b"]
    assert differing_parameters(SMALL, dict(SMALL)) == []


def test_the_shape_of_a_model_counts_where_both_have_one() -> None:
    other = {**SMALL, "shape": {"hidden_size": 16}}
    assert differing_parameters(SMALL, other) == ["shape"]


def test_a_result_from_before_shapes_were_stored_has_that_of_its_model() -> None:
    assert differing_parameters(SMALL, {"model": "small"}) == []
    assert differing_parameters({"model": "large"}, SMALL) == ["model"]


def test_a_workload_is_split_into_what_it_was_made_of() -> None:
    parts = split_workload("qwen_sft/zero_stage=2,model=a/b/sim")
    assert parts == ("qwen_sft", "zero_stage=2,model=a/b", "sim")
    assert (parts.scenario, parts.device) == ("qwen_sft", "sim")
