"""Short names of stacks, and what is said once of all of them."""

from __future__ import annotations

from dsregress.model import Failed, OutOfMemory, Stack, stack_label
from dsregress.wording.names import common_additions, common_text, outcome_text, stack_names


def stack(deepspeed: str, *, named: str = "", added: dict[str, str] | None = None) -> Stack:
    versions = {"torch": "2.13.0", "transformers": "4.57.6", "deepspeed": deepspeed, **(added or {})}
    return Stack(python="3.11", versions=versions, label=stack_label(named, deepspeed, added or {}))


def names(*stacks: Stack) -> list[str]:
    return list(stack_names(stacks).values())


def test_what_all_stacks_have_in_common_is_in_no_name() -> None:
    trl = {"trl": "0.24.0"}
    stacks = [stack("0.16.0", added=trl), stack("0.16.4", added=trl)]
    assert stacks[0].label == "0.16.0 + trl 0.24.0"
    assert names(*stacks) == ["0.16.0", "0.16.4"]
    assert common_text(stacks) == ("torch 2.13.0", "transformers 4.57.6", "trl 0.24.0")


def test_an_added_package_that_differs_stays_in_the_names() -> None:
    stacks = [
        stack(deepspeed, added={"trl": trl, "vllm": "0.8"}) for deepspeed, trl in (("1.0", "2.0"), ("1.1", "2.1"))
    ]
    assert names(*stacks) == ["1.0 + trl 2.0", "1.1 + trl 2.1"]
    assert common_text(stacks) == ("torch 2.13.0", "transformers 4.57.6", "vllm 0.8")


def test_a_named_stack_is_said_once_where_all_are_from_it() -> None:
    old, new = stack("0.16.0", named="old pins"), stack("0.16.4", named="old pins")
    assert names(old, new) == ["0.16.0", "0.16.4"]
    assert common_text([old, new]) == ("torch 2.13.0", "transformers 4.57.6", "stack old pins")
    other = stack("0.16.4", named="pins", added={"trl": "0.24.0"})
    assert names(old, other) == ["old pins: 0.16.0", "pins: 0.16.4 + trl 0.24.0"]
    assert common_additions([old, other]) == ()


def test_no_stacks_have_nothing_in_common() -> None:
    assert (stack_names([]), common_text([])) == ({}, ())


def test_memory_that_ended_a_run_in_a_phase_that_is_not_known_names_none() -> None:
    assert outcome_text(OutOfMemory(phase="backward")) == "out of memory in backward"
    assert outcome_text(OutOfMemory(phase="", detail="Ray killed it")) == "out of memory"


def test_a_line_that_says_what_to_do_is_not_cut_off() -> None:
    said = f"{'x' * 200}: give --with trl"
    assert outcome_text(Failed("import", f"CannotRun: {said}")) == f"failed in import: CannotRun: {said}"
    assert outcome_text(Failed("import", f"ValueError: {said}")).endswith("x...")


def test_a_stack_that_is_alone_is_named_with_the_package_that_was_to_be_compared() -> None:
    versions = {"torch": "2.13.0", "transformers": "4.57.6", "deepspeed": "0.19.8"}
    assert names(Stack(python="3.11", versions=versions, label="4.57.6")) == ["transformers 4.57.6"]
    assert names(Stack(python="3.11", versions=versions, label="0.19.8")) == ["0.19.8"]
