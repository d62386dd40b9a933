"""Results on disk: whole or not at all, never overwritten, and one bad file never hides the others."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import msgspec
import pytest

from dsregress.errors import ResultsError, UsageError
from dsregress.model import NO_FIGURES, Failed, MachineFault, Outcome, OutOfMemory, Passed, Result, Skipped, TimedOut
from dsregress.probe.adapters import PROGRAM
from dsregress.probe.border import machine
from dsregress.probe.border.wire import Detail, RankRecord, RunRecord
from dsregress.store import Store, key_of, newest_by_cell
from dsregress.store.reuse import reusable
from tests.benchmarks import made_up
from tests.builders.edits import of_before
from tests.builders.synthetic import stored_result as result
from vgpu.figures import PhaseReading

DETAIL = Detail(host_functions={"forward": {"f": 3}}, configuration={"a.b": 1}, warnings={"w": 2})


def test_a_result_comes_back_as_it_was_and_its_detail_apart(tmp_path: Path) -> None:
    store, one = Store(str(tmp_path)), result(detail=DETAIL)
    file = store.write(one, DETAIL)
    key = key_of(one)[:12]
    assert file == str(tmp_path / "py3.11-deepspeed0.16.4" / "llama" / f"base-cpu-{key}.json")
    loaded = store.load()
    assert loaded.results == (one,)
    assert loaded.problems == ()
    assert store.detail(loaded.results[0].detail_sha256) == DETAIL


def test_the_file_is_one_json_document(tmp_path: Path) -> None:
    file = Store(str(tmp_path)).write(result(), DETAIL)
    written = json.loads(Path(file).read_text())
    assert written["schema"] == 2
    assert written["outcome"] == {"type": "passed"}


def test_equal_parts_of_details_are_stored_once(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    other = Detail(host_functions={"forward": {"g": 3}}, configuration={"a.b": 1}, warnings={"w": 2})
    first, second = result(detail=DETAIL), result(detail=other, code_sha256="other")
    store.write(first, DETAIL)
    before = {file.name: file.read_bytes() for file in (tmp_path / "details").iterdir()}
    store.write(second, other)
    after = {file.name: file.read_bytes() for file in (tmp_path / "details").iterdir()}
    assert (len(before), len(after)) == (3, 4)
    assert all(name.endswith(".json.gz") and len(name) == 24 for name in after)
    assert {name: after[name] for name in before} == before
    assert [store.detail(one.detail_sha256) for one in (first, second)] == [DETAIL, other]
    assert store.stack_ids() == ["py3.11-deepspeed0.16.4"]
    assert len(store.load().results) == 2


@pytest.mark.parametrize("damage", [b"", b"no gzip at all", gzip.compress(b"{}", mtime=0), None])
def test_a_lost_or_damaged_detail_costs_the_explanation_only_until_it_is_measured_again(
    tmp_path: Path, damage: bytes | None
) -> None:
    store, one = Store(str(tmp_path)), result(detail=DETAIL)
    store.write(one, DETAIL)
    file = next((tmp_path / "details").iterdir())
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    assert store.detail(one.detail_sha256) is None
    assert store.load().results == (one,)
    store.write(msgspec.structs.replace(one, session="s2"), DETAIL)
    assert store.detail(one.detail_sha256) == DETAIL


def test_a_workload_whose_name_starts_like_another_is_not_mistaken_for_it(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    cell = result().cell
    one, other = (
        msgspec.structs.replace(result(), cell=msgspec.structs.replace(cell, variant=name)) for name in ("a", "a-cpu-b")
    )
    store.write(other)
    assert store.last_run(one.cell) is None
    assert store.of_cell(one.cell, key_of(one)).results == ()
    store.write(one)
    assert store.last_run(one.cell) == one
    assert store.of_cell(one.cell, key_of(one)).results == (one,)


def test_a_run_takes_less_than_eleven_kibibytes(tmp_path: Path) -> None:
    """Of the size that real ones have: two ranks, 400 settings, 180 functions; see
    tests/benchmarks/made_up.py."""
    one, detail = next(made_up.results(made_up.STACKS))
    store = Store(str(tmp_path))
    store.write(one, detail)
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) < 11 * 1024


@pytest.mark.parametrize(
    "outcome",
    [
        Passed(),
        Failed(stage="init", signature="s", detail="d"),
        OutOfMemory(phase="backward"),
        TimedOut(stage="step", limit_s=3.0),
        Skipped(reason="r"),
        MachineFault(stage="import", fault=machine.DISK_FULL, signature="s", detail="d"),
    ],
)
def test_every_outcome_survives(tmp_path: Path, outcome: Outcome) -> None:
    store = Store(str(tmp_path))
    store.write(result(outcome=outcome))
    assert store.load().results[0].outcome == outcome


def test_a_second_run_of_the_same_content_stands_beside_the_first(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    first, second = result(), result(session="s2", started_at="2026-02-01T00:00:00Z", detail=DETAIL)
    store.write(first)
    file = store.write(second, DETAIL)
    assert Path(file).name == f"base-cpu-{key_of(first)[:12]}-s2.json"
    found = store.of_cell(first.cell, key_of(first)).results
    assert [r.session for r in found] == ["s1", "s2"]
    assert newest_by_cell(found)[first.cell.id].session == "s2"
    assert store.detail(second.detail_sha256) == DETAIL
    with pytest.raises(ResultsError, match="never overwritten"):
        store.write(second)


def test_changed_content_has_another_key() -> None:
    one = result()
    assert key_of(one) == key_of(result(session="s2"))
    for other in (
        result(code_sha256="x"),
        result(lock_sha256="x"),
        result(measuring_version="2"),
        msgspec.structs.replace(one, cell=msgspec.structs.replace(one.cell, scenario_version=9)),
        msgspec.structs.replace(one, cell=msgspec.structs.replace(one.cell, parameters={"zero_stage": 1})),
        msgspec.structs.replace(one, hardware=msgspec.structs.replace(one.hardware, cores=64)),
    ):
        assert key_of(other) != key_of(one)


def test_bad_files_are_reported_one_line_each_and_left_alone(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "results"))
    good = store.write(result())
    folder = Path(good).parent
    bad = {
        "cpu-a.json": b"",
        "cpu-b.json": Path(good).read_bytes()[:200],
        "cpu-c.json": b'{"schema": 7, "cell": "from the future"}',
        "cpu-d.json": b'{"schema":1,"cell":"not a cell"}',
        "cpu-e.json": b"[1, 2, 3]",
        "cpu-f.json": b"\xff\xfe\x00",
        "cpu-g.json": b'{"schema": 0}',
    }
    for name, content in bad.items():
        (folder / name).write_bytes(content)
    loaded = store.load()
    assert len(loaded.results) == 1
    assert len(loaded.problems) == len(bad)
    assert all("\n" not in problem for problem in loaded.problems)
    where = "results/py3.11-deepspeed0.16.4/llama"
    assert (
        f"{where}/cpu-c.json: written by a newer version (schema 7, this one reads up to 2): update dsregress"
        in loaded.problems
    )
    assert {name: (folder / name).read_bytes() for name in bad} == bad


def test_foreign_and_hidden_files_are_not_looked_at(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    folder = Path(store.write(result(), benchmark={"benchmarks": [{"name": "x"}]})).parent
    (folder / ".partial-abc").write_text("{")
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "README.md").write_text("mine")
    loaded = store.load()
    assert (len(loaded.results), loaded.problems) == (1, ())
    (benchmark,) = folder.glob("*.benchmark.json")
    assert json.loads(benchmark.read_text())["benchmarks"][0]["name"] == "x"


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    elsewhere = Store(str(tmp_path / "elsewhere"))
    elsewhere.write(result())
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "link").symlink_to(tmp_path / "elsewhere")
    assert Store(str(tmp_path / "results")).load().results == ()


@pytest.mark.parametrize(
    "name", ["..", ".", "", "a/b", "../../etc", "/etc", "a\0b", "a\nb", ".hidden", "x" * 300, "-rf"]
)
@pytest.mark.parametrize("field", ["scenario", "variant", "device"])
def test_hostile_names_write_nothing_anywhere(tmp_path: Path, field: str, name: str) -> None:
    store = Store(str(tmp_path / "results"))
    cell = msgspec.structs.replace(result().cell, **{field: name})
    with pytest.raises(UsageError, match="cannot name a folder of results"):
        store.write(msgspec.structs.replace(result(), cell=cell))
    assert list(tmp_path.iterdir()) == []


def test_no_folder_means_no_results(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "absent"))
    assert store.load().results == ()
    assert store.stack_ids() == []


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError) as caught:
        Store(str(tmp_path / "file" / "results")).check_writable()
    assert str(caught.value).endswith(
        "file: cannot be used for results: it is a file where a folder is needed; move it away"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_full_disk_leaves_no_part_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path))

    def full(handle: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultsError, match=r"No space left on device; free disk space"):
        store.write(result())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_long_file_is_read_to_its_end(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    many = RunRecord(
        outcome="passed",
        ranks=[RankRecord(rank=n, phases={"step": PhaseReading(device_peak_bytes=n)}) for n in range(500)],
    )
    one = msgspec.structs.replace(result(), record=many)
    file = store.write(one)
    assert os.path.getsize(file) > 100_000
    assert store.load().results == (one,)


def result_with(outcome: Outcome, rounds: int = 9) -> Result:
    return result(outcome=outcome, rounds=rounds)


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        (result_with(Passed()), True),
        (result_with(Passed(), rounds=3), False),
        (result_with(Failed(stage="backward", signature="RuntimeError: x")), True),
        (result_with(Failed(stage="install", signature="x")), True),
        (result_with(Failed(stage="harness", signature="x")), False),
        (result_with(MachineFault(stage="import", fault="the disk is full", signature="OSError")), False),
        (result_with(Skipped(reason="no GPU")), False),
        (result_with(OutOfMemory(phase="backward")), True),
        (result_with(TimedOut(stage="init", limit_s=1.0)), False),
    ],
)
def test_what_a_release_does_is_kept_and_what_a_machine_did_is_tried_again(found: Result, counts: bool) -> None:
    assert (reusable([found], rounds=9) is found) is counts


@pytest.mark.parametrize(("framework", "counts"), [("deepspeed", True), (PROGRAM, False)])
def test_what_a_program_lacks_may_be_here_by_now(framework: str, counts: bool) -> None:
    found = result_with(Failed(stage="import", signature="OSError: sndfile library not found"))
    found = msgspec.structs.replace(found, cell=msgspec.structs.replace(found.cell, framework=framework))
    assert (reusable([found], rounds=9) is found) is counts


@pytest.mark.parametrize(
    ("framework", "outcome", "counts"),
    [
        (PROGRAM, Failed(stage="backward", signature="RuntimeError: x"), False),
        (PROGRAM, Failed(stage="install", signature="x"), True),
        (PROGRAM, Passed(), True),
        ("deepspeed", Failed(stage="backward", signature="RuntimeError: x"), True),
    ],
)
def test_a_program_that_failed_is_tried_again_by_another_probe(framework: str, outcome: Outcome, counts: bool) -> None:
    found = result_with(outcome)
    found = msgspec.structs.replace(found, cell=msgspec.structs.replace(found.cell, framework=framework))
    assert reusable([found], 9, found.probe_sha256) is found
    assert (reusable([found], 9, "another") is found) is counts


@pytest.mark.parametrize(
    ("written", "image", "read"),
    [
        (
            Failed("import", "OSError: [Errno 28] No space left on device"),
            "",
            MachineFault("import", machine.DISK_FULL, "OSError: [Errno 28] No space left on device"),
        ),
        (Failed("step", "killed by SIGKILL"), "", MachineFault("step", machine.KILLED, "killed by SIGKILL")),
        (
            Failed(
                "init",
                "RuntimeError: Error building extension 'cpu_adam'",
                "ld: final link failed: Disk quota exceeded",
            ),
            "",
            MachineFault(
                "init",
                machine.DISK_FULL,
                "RuntimeError: Error building extension 'cpu_adam'",
                "ld: final link failed: Disk quota exceeded",
            ),
        ),
        (
            OutOfMemory("step", "killed by the kernel: out of memory"),
            "",
            MachineFault("step", machine.MEMORY, "killed by the kernel: out of memory"),
        ),
        (OutOfMemory("step", "killed by the kernel: out of memory"), "sha256:1", None),
        (OutOfMemory("step", "MemoryError: tried to allocate 2.00 GiB"), "", None),
        (Failed("step", "killed by SIGSEGV", "a warning: Max retries exceeded with url: /api"), "", None),
    ],
)
def test_what_an_earlier_version_took_for_the_releases_fault_is_read_as_the_machines(
    tmp_path: Path, written: Outcome, image: str, read: Outcome | None
) -> None:
    store = Store(str(tmp_path))
    file = Path(store.write(msgspec.structs.replace(result(outcome=written), image=image)))
    assert [stored.outcome for stored in store.load().results] == [written]  # as this version judges it
    file.write_bytes(of_before(file.read_bytes(), lambda document: None))
    (found,) = store.load().results
    assert found.outcome == (read or written)
    assert (reusable([found], rounds=9) is found) is (read is None)


@pytest.mark.parametrize(
    "signature",
    [
        "TypeError: OrderedGloo.__init__() got an unexpected keyword argument 'enable_reconfigure' (deepspeed/comm.py:init)",
        "NoStandInError: triton.runtime.driver.active.get_benchmarker has no stand-in: leave out what needs it",
        "KeyError: 7 (vgpu/allocator/model.py:184)",
    ],
)
def test_what_an_earlier_version_took_for_the_releases_fault_is_read_as_the_harness(
    tmp_path: Path, signature: str
) -> None:
    store = Store(str(tmp_path))
    file = Path(store.write(result(outcome=Failed("init", signature, "the log"))))
    file.write_bytes(of_before(file.read_bytes(), lambda document: None))
    (found,) = store.load().results
    assert found.outcome == Failed("harness", signature, "the log")
    assert reusable([found], rounds=0) is None


@pytest.mark.parametrize(
    "record",
    [
        None,
        RunRecord(outcome="passed"),
        RunRecord(outcome="passed", ranks=[RankRecord(rank=0)]),
        RunRecord(outcome="passed", ranks=[RankRecord(rank=0, phases={"step": PhaseReading()}), RankRecord(rank=1)]),
    ],
    ids=["no record", "no ranks", "no phases", "one rank without phases"],
)
def test_what_passed_without_figures_is_no_measurement(tmp_path: Path, record: RunRecord | None) -> None:
    store = Store(str(tmp_path))
    store.write(msgspec.structs.replace(result(), record=record))
    (found,) = store.load().results
    assert found.outcome == Failed("harness", NO_FIGURES)
    assert reusable([found], rounds=0) is None


def test_what_says_something_of_a_release_counts_before_what_is_newer_and_does_not() -> None:
    older, newer = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    fault = result(outcome=MachineFault("import", machine.DISK_FULL, "s"))
    measured = msgspec.structs.replace(result(), started_at=older)
    for outcome in (fault.outcome, Failed("harness", "s"), Skipped("r")):
        later = msgspec.structs.replace(fault, outcome=outcome, started_at=newer)
        assert list(newest_by_cell([measured, later]).values()) == [measured]
        assert list(newest_by_cell([later, measured]).values()) == [measured]
