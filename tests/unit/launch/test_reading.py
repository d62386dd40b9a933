"""A run's folder was written by code under test: nothing in it is trusted."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from harness.launch import reading
from harness.model import Failed, OutOfMemory, Passed, TimedOut
from harness.probe.border.wire import Detail, RankRecord, RunRecord


def record(**fields: object) -> bytes:
    return json.dumps({**asdict(RunRecord(outcome="passed")), **fields}).encode()


def test_a_record_is_read_and_its_detail_kept_apart(tmp_path: Path) -> None:
    whole = RunRecord(outcome="passed", ranks=[RankRecord(rank=0)], detail=Detail(warnings={"w": 1}))
    (tmp_path / "record.json").write_text(json.dumps(asdict(whole)))
    ended = reading.ended(tmp_path, 10)
    assert ended.outcome == Passed()
    assert ended.record is not None
    assert ended.record.detail is None
    assert ended.detail == Detail(warnings={"w": 1})


@pytest.mark.parametrize(
    ("content", "outcome"),
    [
        (record(outcome="failed", stage="init", signature="s", log_tail="t"), Failed("init", "s", "t")),
        (record(outcome="out_of_memory", stage="backward"), OutOfMemory("backward")),
        (record(outcome="timed_out", stage="step"), TimedOut("step", 10)),
        (record(outcome="splendid"), Failed("harness", "the record tells an unknown outcome: 'splendid'")),
    ],
)
def test_how_it_ended_is_a_type(tmp_path: Path, content: bytes, outcome: object) -> None:
    (tmp_path / "record.json").write_bytes(content)
    assert reading.ended(tmp_path, 10).outcome == outcome


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", record(ranks="many"), record(import_s="long")])
def test_garbage_is_a_failure_of_the_harness(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "record.json").write_bytes(content)
    outcome = reading.ended(tmp_path, 10).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.signature) == ("harness", "the record cannot be read")


def test_no_record_is_a_failure_of_the_harness(tmp_path: Path) -> None:
    assert reading.ended(tmp_path, 10).outcome == Failed("harness", "no record was left")


def test_a_broken_benchmark_file_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_bytes(record())
    (tmp_path / "benchmark.json").write_text("{")
    ended = reading.ended(tmp_path, 10)
    assert (ended.outcome, ended.benchmark) == (Passed(), None)
