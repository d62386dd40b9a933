"""One result as bytes, and back."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from dsregress.compare.result_summary import summarize
from dsregress.store.schema import decode, encode
from tests.builders.synthetic import record, result

IDEAL = {"step.device_retained_bytes": {"parameters": 500, "optimizer": 1_000}}
LARGER = {"step.device_retained_bytes": {"parameters": 700, "optimizer": 1_000}}


def ideals(*each: dict[str, dict[str, int]]) -> Any:
    run = record(ranks=len(each))
    ranks = [dataclasses.replace(rank, ideal=ideal) for rank, ideal in zip(run.ranks, each, strict=True)]
    return result(run=dataclasses.replace(run, ranks=ranks))


@pytest.mark.parametrize("each", [(IDEAL,) * 4, (IDEAL, LARGER, IDEAL), ({}, {})], ids=["same", "differing", "none"])
def test_what_every_rank_must_hold_comes_back_for_each_rank(each: tuple[dict[str, dict[str, int]], ...]) -> None:
    one = ideals(*each)
    assert decode(encode(one)) == one
    assert summarize(decode(encode(one))).excesses == summarize(one).excesses


def test_what_is_the_same_for_all_ranks_is_written_once() -> None:
    assert encode(ideals(IDEAL, IDEAL, IDEAL)).count(b'"optimizer":1000') == 1


def test_a_file_that_repeats_it_is_read_as_well() -> None:
    one = ideals(IDEAL, IDEAL)
    of_before = msgspec.structs.replace(one, schema=1)
    assert decode(msgspec.json.encode(of_before)) == of_before
