"""A run's folder was written by code under test: nothing in it is trusted."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from dsregress.launch import run_files
from dsregress.model import NO_FIGURES, Failed, MachineFault, OutOfMemory, Passed, TimedOut
from dsregress.probe.border import machine
from dsregress.probe.border.wire import Detail, RunRecord
from tests.builders.cells import RANK
from vgpu.figures import PhaseReading


def record(**fields: object) -> bytes:
    return json.dumps({**asdict(RunRecord(outcome="passed", ranks=[RANK])), **fields}).encode()


def test_a_record_is_read_and_its_detail_kept_apart(tmp_path: Path) -> None:
    whole = RunRecord(outcome="passed", ranks=[RANK], detail=Detail(warnings={"w": 1}))
    (tmp_path / "record.json").write_text(json.dumps(asdict(whole)))
    ended = run_files.read_end_of_run(tmp_path, 10)
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
        (
            record(outcome="timed_out", stage="step", whereabouts=["rank 0: x.py:f", "rank 1: x.py:g"]),
            TimedOut("step", 10, whereabouts=("rank 0: x.py:f", "rank 1: x.py:g")),
        ),
        (record(outcome="deadlocked", stage="step"), TimedOut("step", 20)),
        (record(outcome="still_working", stage="generate"), TimedOut("generate", 100, working=True)),
        (
            record(outcome="machine_fault", machine_fault=machine.DISK_FULL, stage="init", signature="s", log_tail="t"),
            MachineFault("init", machine.DISK_FULL, "s", "t"),
        ),
        (record(ranks=[]), Failed("harness", NO_FIGURES)),
        (record(ranks=[{"rank": 0}]), Failed("harness", NO_FIGURES)),
        (record(ranks=[asdict(RANK), {"rank": 1, "phases": {}}]), Failed("harness", NO_FIGURES)),
        (record(outcome="splendid"), Failed("harness", "the record tells an unknown outcome: 'splendid'")),
    ],
)
def test_how_it_ended_is_a_type(tmp_path: Path, content: bytes, outcome: object) -> None:
    (tmp_path / "record.json").write_bytes(content)
    assert run_files.read_end_of_run(tmp_path, 10).outcome == outcome


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", record(ranks="many"), record(import_s="long")])
def test_garbage_is_a_failure_of_the_harness(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "record.json").write_bytes(content)
    outcome = run_files.read_end_of_run(tmp_path, 10).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.signature) == ("harness", "the record cannot be read")


def test_no_record_is_a_failure_of_the_harness(tmp_path: Path) -> None:
    assert run_files.read_end_of_run(tmp_path, 10).outcome == Failed("harness", "no record was left")


def test_a_broken_benchmark_file_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_bytes(record())
    (tmp_path / "benchmark.json").write_text("{")
    ended = run_files.read_end_of_run(tmp_path, 10)
    assert (ended.outcome, ended.benchmark) == (Passed(), None)


def fifo(file: Path) -> None:
    os.mkfifo(file)


def link_to_zeros(file: Path) -> None:
    file.symlink_to("/dev/zero")


def link_out_of_the_folder(file: Path) -> None:
    outside = file.parent.parent / "secret.json"
    outside.write_bytes(record(signature="secret"))
    file.symlink_to(outside)


def sparse_terabyte(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(1 << 40)


def nested_deep(file: Path) -> None:
    file.write_bytes(b'{"benchmarks":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def folder(file: Path) -> None:
    file.mkdir()


HOSTILE = [fifo, link_to_zeros, link_out_of_the_folder, sparse_terabyte, nested_deep, folder]


@pytest.mark.parametrize("name", ["benchmark.json", "explanation.json"])
@pytest.mark.parametrize("make", HOSTILE)
def test_a_hostile_companion_costs_nothing_else(tmp_path: Path, make: Callable[[Path], None], name: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "record.json").write_bytes(record())
    make(run / name)
    ended = run_files.read_end_of_run(run, 10)
    assert (ended.outcome, ended.benchmark, ended.explanation) == (Passed(), None, None)


@pytest.mark.parametrize("make", HOSTILE)
def test_a_hostile_record_is_a_failure_of_the_harness(tmp_path: Path, make: Callable[[Path], None]) -> None:
    run = tmp_path / "run"
    run.mkdir()
    make(run / "record.json")
    outcome = run_files.read_end_of_run(run, 10).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.stage, outcome.signature) == ("harness", "the record cannot be read")


def test_a_benchmark_file_that_nests_too_deep_to_be_stored_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_bytes(record())
    (tmp_path / "benchmark.json").write_bytes(b'{"benchmarks":' + b"[" * 300 + b"]" * 300 + b"}")
    assert run_files.read_end_of_run(tmp_path, 10).benchmark is None


@pytest.mark.parametrize(
    "detail",
    [
        {"configuration": [], "host_functions": {}, "warnings": {}},
        {"configuration": {}, "host_functions": {"forward": {"f": "many"}}, "warnings": {}},
        {"configuration": {}, "host_functions": {}, "warnings": {"w": 1.5}},
        "all of it",
    ],
)
def test_a_detail_that_cannot_be_read_costs_the_figures_nothing(tmp_path: Path, detail: object) -> None:
    (tmp_path / "record.json").write_bytes(record(ranks=[asdict(dataclasses.replace(RANK, init_s=2.5))], detail=detail))
    ended = run_files.read_end_of_run(tmp_path, 10)
    assert (ended.outcome, ended.detail) == (Passed(), None)
    assert ended.record is not None
    assert ended.record.ranks[0].init_s == 2.5


def test_figures_that_cannot_be_true_are_a_failure_of_the_harness(tmp_path: Path) -> None:
    reading_of_phase = {**asdict(PhaseReading()), "device_peak_bytes": 10**60}
    rank = {**asdict(RANK), "phases": {"init": reading_of_phase}}
    (tmp_path / "record.json").write_bytes(record(ranks=[rank]))
    outcome = run_files.read_end_of_run(tmp_path, 10).outcome
    assert outcome == Failed(
        "harness", "the record cannot be read", "a figure of phase 'init' is negative or too large in rank 0"
    )


def test_texts_of_a_record_are_cut_to_what_is_kept(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_bytes(
        record(outcome="failed", stage="s" * 9999, signature="x" * 9999, log_tail="y" * 9999)
    )
    outcome = run_files.read_end_of_run(tmp_path, 10).outcome
    assert isinstance(outcome, Failed)
    assert (len(outcome.stage) < 100, len(outcome.signature) < 400, len(outcome.detail)) == (True, True, 1500)


@pytest.mark.parametrize("content", [None, b"{"])
def test_no_record_on_a_full_disk_is_the_machines_fault(
    tmp_path: Path, content: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "record.json").write_bytes(content)
    monkeypatch.setattr(machine, "disk_is_full", lambda folder: folder == tmp_path)
    outcome = run_files.read_end_of_run(tmp_path, 10).outcome
    assert isinstance(outcome, MachineFault)
    assert (outcome.stage, outcome.fault) == ("harness", machine.DISK_FULL)
