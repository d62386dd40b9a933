"""Stored results by workload, as a comparison takes them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from dsregress.model import Result, Stack
from dsregress.store import Store, StoredWorkloads, encode
from tests.builders.synthetic import stored_result as result


@pytest.mark.slow
def test_many_results_are_read_by_many_processes_and_come_in_the_same_order(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    written = [
        msgspec.structs.replace(result(), cell=msgspec.structs.replace(result().cell, variant=f"layers={number:04}"))
        for number in range(2_500)
    ]
    for one in written:
        file = Path(store.file_of(one))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encode(one))
    (file.parent / "layers=0003-cpu-bad.json").write_text("{")
    problems: list[str] = []
    found = [variant for variants in StoredWorkloads([store]).map(variants_of, problems.append) for variant in variants]
    assert found == [one.cell.variant for one in written]
    assert len(problems) == 1
    assert "layers=0003-cpu-bad.json: damaged, or not a result: " in problems[0]


def test_a_file_that_holds_another_workload_than_its_name_says_is_reported_and_not_judged(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    file = Path(store.write(result()))
    file.rename(file.with_name(file.name.replace("base-", "other-")))
    problems: list[str] = []
    (found,) = StoredWorkloads([store]).map(variants_of, problems.append)
    assert found == []
    assert len(problems) == 1
    assert problems[0].endswith("named wrongly, it holds py3.11-deepspeed0.16.4/llama/base/cpu")


def test_a_file_whose_name_is_no_text_is_reported_as_others_are(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    folder = Path(store.write(result())).parent
    (folder / os.fsdecode(b"caf\xe9-cpu-0123456789ab.json")).write_text("{}")
    problems: list[str] = []
    assert list(StoredWorkloads([store]).map(variants_of, problems.append)) == [["base"]]
    assert len(problems) == 1
    assert "caf\udce9" in problems[0]


def test_a_workload_is_read_again_whole_or_for_one_stack(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    stack = Stack(python="3.11", versions={"deepspeed": "0.15.0"})
    one, other = result(), msgspec.structs.replace(result(), cell=msgspec.structs.replace(result().cell, stack=stack))
    store.write(one)
    stored = StoredWorkloads([store])
    assert list(stored.read(one.cell.workload)) == [one]
    store.write(other)
    assert list(stored.read(one.cell.workload)) == [one]  # what is written later is not among them
    stored = StoredWorkloads([store])
    assert list(stored.read(one.cell.workload)) == [other, one]
    assert list(stored.read(one.cell.workload, stack.id)) == [other]


def test_a_variant_that_ends_like_a_key_is_a_workload_of_its_own(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    variants = [f"with-{digits * 12}" for digits in "ab"]
    for variant in variants:
        store.write(msgspec.structs.replace(result(), cell=msgspec.structs.replace(result().cell, variant=variant)))
    stored = StoredWorkloads([store])
    for variant in variants:
        assert variants_of(stored.read(f"{result().cell.scenario}/{variant}/cpu")) == [variant]


def variants_of(stored: Iterable[Result]) -> list[str]:
    return [one.cell.variant for one in stored]
