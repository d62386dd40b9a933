"""What the values between the parts say of themselves."""

from __future__ import annotations

import pytest

from dsregress.model import (
    Cell,
    Signature,
    Stack,
    differing_parameters,
    read_signature,
    split_workload,
    variant_values,
)

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


def test_the_values_of_a_variant_are_read_from_its_name() -> None:
    assert variant_values("zero_stage=2,model=a/b") == {"zero_stage": "2", "model": "a/b"}
    assert variant_values("base") == {}
    assert variant_values("with-1a2b3c4d5e6f") == {}  # a name too long to be a file's


def cell(stack: Stack, packages: dict[str, str]) -> Cell:
    return Cell(
        stack=stack,
        scenario="grpo",
        scenario_version=1,
        variant="base",
        device="sim",
        framework="program",
        parameters={"packages": packages},
    )


def test_a_cell_runs_in_an_environment_with_the_packages_that_its_scenario_needs() -> None:
    stack = Stack(python="3.11", versions={"deepspeed": "0.16.8", "trl": "0.23.0"}, label="0.16.8")
    environment = cell(stack, {"trl": "0.24.0", "datasets": "4.4.1", "flash-attn": ""}).environment_stack
    assert environment.versions == {"deepspeed": "0.16.8", "trl": "0.23.0", "datasets": "4.4.1", "flash-attn": ""}
    assert environment.label == "0.16.8 + datasets 4.4.1"


def test_an_interpreter_that_existed_is_as_it_is() -> None:
    stack = Stack(python="3.11+1a2b3c4d", versions={"deepspeed": "0.16.8"})
    assert cell(stack, {"trl": "0.24.0"}).environment_stack == stack


def test_the_id_of_a_stack_with_many_packages_names_a_folder() -> None:
    few = {"transformers": "4.57.6", "deepspeed": "0.16.8", "datasets": "2.16.1"}
    many = {**few, **{f"package{number}": "1.0.0" for number in range(20)}}
    assert Stack(python="3.11", versions=few).id == "py3.11-transformers4.57.6-deepspeed0.16.8-datasets2.16.1"
    own = Stack(python="3.11", versions=many).id
    assert own.startswith("py3.11-transformers4.57.6-deepspeed0.16.8-21packages-")
    assert len(own) < 80
    assert own == Stack(python="3.11", versions=dict(reversed(many.items()))).id
    assert own != Stack(python="3.11", versions={**many, "package3": "1.0.1"}).id


@pytest.mark.parametrize(
    ("text", "message", "file", "function"),
    [
        ("ValueError: got 0 (deepspeed/a.py:step)", "ValueError: got 0", "deepspeed/a.py", "step"),
        ("ImportError: no 'X' (numpy/__init__.py) (trl/x.py:<module>)", "ImportError: no 'X' (numpy/__init__.py)",
         "trl/x.py", "<module>"),
        ("ImportError: no 'X' (numpy/__init__.py)", "ImportError: no 'X' (numpy/__init__.py)", "", ""),
        ("build of deepspeed: no output", "build of deepspeed: no output", "", ""),
        ("AssertionError (engine.py:backward)", "AssertionError", "engine.py", "backward"),
        ("RuntimeError: size (4) (at: least", "RuntimeError: size (4) (at: least", "", ""),
        ("", "", "", ""),
    ],
)  # fmt: skip
def test_a_stored_signature_has_a_message_and_a_place(text: str, message: str, file: str, function: str) -> None:
    assert read_signature(text) == Signature(message, file, function)


def test_a_signature_names_its_error_and_the_package_that_raised_it() -> None:
    found = read_signature("ValueError: got: 0 (deepspeed/runtime/a.py:step)")
    assert (found.error, found.words, found.package) == ("ValueError", "got: 0", "deepspeed")
    assert read_signature("ValueError: got 0 (train.py:main)").package == ""
