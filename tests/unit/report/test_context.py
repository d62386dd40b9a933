"""What all reports need of a comparison, computed once."""

from __future__ import annotations

import ast

import msgspec
import pytest

from dsregress.compare import Comparison, Thresholds, compare
from dsregress.model import Result
from dsregress.report.context import report_context
from dsregress.report.report_view import report_view
from tests.builders.sources import parsed
from tests.builders.synthetic import result, stack
from tests.paths import SOURCE

#: Reports that compare a few stacks with one another, which no context can know.
BY_FEW = {"context.py", "first_screen.py", "problem_lines.py", "problem_facts.py", "next_steps.py"}


def on(deepspeed: str, **versions: str) -> Result:
    one = result(deepspeed)
    return msgspec.structs.replace(one, cell=msgspec.structs.replace(one.cell, stack=stack(deepspeed, **versions)))


def compared(*results: Result) -> Comparison:
    return compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)


def test_a_stack_has_its_place_and_its_name_and_beside_another_one_what_differs() -> None:
    old, new, other = on("0.15.0"), on("0.16.4"), on("0.16.4", torch="2.9.1")
    ids = [one.cell.stack.id for one in (old, new, other)]
    context = report_context(compared(old, new))
    assert (context.axes, context.only_axis, context.baseline) == (("deepspeed",), "deepspeed", "0.15.0")
    assert [context.order[own] for own in ids[:2]] == [0, 1]
    assert context.stacks[ids[1]].versions["deepspeed"] == "0.16.4"
    assert context.name_beside(ids[1], ids[0]) == "0.16.4"
    assert context.name_of("a stack without results") == "a stack without results"
    several = report_context(compared(old, new, other))
    assert (several.axes, several.only_axis) == (("torch", "deepspeed"), "")
    assert several.name_beside(ids[2], ids[1]) == "torch 2.9.1"


def test_a_context_stays_as_it_was_made() -> None:
    context = report_context(compared(on("0.15.0"), on("0.16.4")), exit_code=1)
    with pytest.raises(AttributeError):
        context.exit_code = 0  # type: ignore[misc]
    assert report_view(context).screen.headline == "Nothing is worse than the baseline"


def test_no_other_report_finds_out_which_packages_vary() -> None:
    asking = {
        file.name
        for file in (SOURCE / "dsregress" / "report").rglob("*.py")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "varied_axes"
    }
    assert asking == BY_FEW
