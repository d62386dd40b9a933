"""A release and a workload name the cell that was measured, whatever other packages its stack has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dsregress.cli import options
from dsregress.cli.named_cells import named_cell
from dsregress.errors import UsageError
from dsregress.model import Cell, Stack
from dsregress.run import pipeline
from tests.builders import synthetic

WORKLOAD = "llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu"


def cell(deepspeed: str, **more: str) -> Cell:
    return msgspec.structs.replace(synthetic.result(deepspeed).cell, stack=synthetic.stack(deepspeed, **more))


def named(text: str, *measured: Cell, like: Stack | None = None) -> Cell:
    results = [msgspec.structs.replace(synthetic.result(), cell=one) for one in measured]
    store: Any = SimpleNamespace(load=lambda: SimpleNamespace(results=results))
    settings = options.load_settings()
    return named_cell(text, settings, store, pipeline.new_installer(settings), {}, like=like)


def test_a_release_names_the_cell_that_was_measured_with_other_packages() -> None:
    only = cell("0.16.4", trl="0.24.0", datasets="4.0.0")
    assert named(f"0.16.4/{WORKLOAD}", only, cell("0.16.8", trl="0.24.0")) == only


def test_a_release_names_the_stack_to_which_nothing_was_added_where_it_was_measured() -> None:
    plain = cell("0.16.4")
    assert named(f"0.16.4/{WORKLOAD}", cell("0.16.4", trl="0.24.0"), plain) == plain


def test_of_several_sets_of_packages_each_is_said() -> None:
    several = cell("0.16.4", trl="0.24.0"), cell("0.16.4", trl="0.23.0")
    with pytest.raises(UsageError) as raised:
        named(f"0.16.4/{WORKLOAD}", *several)
    assert "matches 2 stored cells" in str(raised.value)
    assert all(one.id in str(raised.value) for one in several)


def test_beside_another_cell_its_packages_are_meant() -> None:
    mine, beside = cell("0.16.4", trl="0.24.0"), cell("0.15.0", trl="0.24.0")
    measured = (mine, cell("0.15.0"), cell("0.15.0", trl="0.23.0"), beside)
    assert named(f"0.15.0/{WORKLOAD}", *measured, like=mine.stack) == beside


def test_beside_another_cell_a_release_that_was_not_measured_gets_its_packages() -> None:
    mine = cell("0.16.4", transformers="4.45.2")
    planned = named(f"0.15.0/{WORKLOAD}", mine, cell("0.15.0"), like=mine.stack)
    assert planned.stack.versions["transformers"] == "4.45.2"
    assert planned.stack.versions["deepspeed"] == "0.15.0"
