"""What is not as it was written does not count, and of a run that is told in two ways neither does."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dsregress import cli
from dsregress.errors import EXIT_HARNESS, EXIT_OK, EXIT_REGRESSION
from dsregress.model import Result
from dsregress.store import Store, StoredWorkloads, bundle_file, schema
from dsregress.store.checksum import is_as_written, with_checksum
from dsregress.store.publishing import publish
from tests.builders import synthetic
from tests.builders.edits import edited, forged

BASELINE = synthetic.stack("0.15.0").id
WORKLOAD = "llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu"


def measured(version: str, held_mib: int = 0, **changes: Any) -> Result:
    return synthetic.result(version, run=synthetic.noisy_record(1, held_mib=held_mib), **changes)


def holds_less(document: Any) -> None:
    for rank in document["record"]["ranks"]:
        rank["phases"]["backward"]["device_retained_bytes"] = 2
        rank["phases"]["backward"]["device_peak_bytes"] = 2
        rank["phases"]["step"]["device_peak_bytes"] = 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release that holds 64 MiB more than the baseline."""
    monkeypatch.chdir(tmp_path)
    store = Store("results")
    store.write(measured("0.15.0"))
    store.write(measured("0.16.4", held_mib=64))
    return tmp_path / "results"


def file_of(folder: Path, version: str) -> Path:
    (found,) = folder.glob(f"*deepspeed{version}/*/*.json")
    return found


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[object, list[str]]]:
    """The exit code of ``report``, and what it says on stderr."""

    def called(*sources: object) -> tuple[object, list[str]]:
        with pytest.raises(SystemExit) as ended:
            cli.run_command_line(["report", *map(str, sources), "--baseline", BASELINE])
        return ended.value.code, capsys.readouterr().err.splitlines()

    return called


Report = Callable[..., tuple[object, list[str]]]


def test_an_object_ends_with_the_checksum_of_all_before_it() -> None:
    written = with_checksum(b'{"a":1}')
    assert json.loads(written) == {"a": 1, "sha256": "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"}
    assert is_as_written(written)
    assert is_as_written(written + b"\n")
    assert not is_as_written(written.replace(b"1", b"2", 1))
    assert not is_as_written(b'{"a":1}')
    assert not is_as_written(json.dumps(json.loads(written)).encode())


def test_one_edited_figure_turns_no_regression_into_a_pass(folder: Path, report: Report) -> None:
    assert report(folder)[0] == EXIT_REGRESSION
    file = file_of(folder, "0.16.4")
    file.write_bytes(edited(file.read_bytes(), holds_less))
    code, said = report(folder)
    assert code == EXIT_HARNESS
    assert said[0] == (
        f"dsregress: left out: {file.relative_to(folder.parent)}: damaged or edited after "
        f"{synthetic.stack('0.16.4').id}/{WORKLOAD} was measured: its checksum does not match; restore it, or remove it and "
        "measure again"
    )
    assert "0.16.4" in said[-1]
    assert "restore the edited file, or remove it, then measure again" in said[-1]


def test_an_edited_result_is_not_replaced_by_an_older_one_that_passes(folder: Path, report: Report) -> None:
    store = Store(str(folder))
    store.write(measured("0.16.4", code_sha256="before", started_at="2025-01-01T00:00:00Z", session="first"))
    newest = Path(store.file_of(measured("0.16.4", held_mib=64)))
    newest.write_bytes(edited(newest.read_bytes(), holds_less))
    assert report(folder)[0] == EXIT_HARNESS
    newest.unlink()
    assert report(folder)[0] == EXIT_OK


def test_a_result_of_before_has_no_checksum_and_is_read(folder: Path, report: Report) -> None:
    for file in folder.glob("*/*/*.json"):
        document = json.loads(file.read_bytes())
        assert document.pop("sha256")
        file.write_text(json.dumps({**document, "schema": 1}))
    code, said = report(folder)
    assert (code, said) == (EXIT_REGRESSION, [])


def test_a_result_of_now_without_a_checksum_is_not_read(folder: Path) -> None:
    data = file_of(folder, "0.16.4").read_bytes()
    with pytest.raises(schema.ChangedError):
        schema.decode(edited(data, lambda document: document.pop("sha256")))


def test_of_a_bundle_each_line_is_checked_and_that_none_is_missing(folder: Path, report: Report) -> None:
    file = folder.parent / "run.jsonl.gz"
    publish(str(folder), str(file))
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    assert report(file) == (EXIT_REGRESSION, [])
    path = json.loads(lines[2])["path"]
    fetch = "fetch the bundle again"
    changed = f"damaged or edited after it was written: its checksum does not match; {fetch}"
    for at, (altered, why) in enumerate(
        (
            ([*lines[:2], edited(lines[2], lambda line: holds_less(line["content"]))], f"line 3: {path}: {changed}"),
            ([edited(lines[0], lambda line: line.update(about="mine")), *lines[1:]], f"line 1: {changed}"),
            (lines[:2], f"damaged: it has 2 lines, and its first one lists 3; {fetch}"),
            (
                [*lines, lines[2].replace(b"-cpu-", b"-sim-", 1)],
                f"line 4: {path.replace('-cpu-', '-sim-', 1)}: {changed}",
            ),
        )
    ):
        other = folder.parent / f"{at}.jsonl.gz"
        other.write_bytes(gzip.compress(b"".join(altered)))
        code, said = report(other)
        assert code in (EXIT_HARNESS, EXIT_REGRESSION)
        assert (code == EXIT_REGRESSION) == (len(altered) >= 3 and altered[2] == lines[2])
        assert said[0] == f"dsregress: left out: {other.name}: {why}"


def test_a_bundle_of_before_has_no_checksums_and_is_read(folder: Path, report: Report) -> None:
    file = folder.parent / "run.jsonl.gz"
    publish(str(folder), str(file))
    header, *others = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    for line in (header, *others):
        del line["sha256"]
    file.write_bytes(
        gzip.compress(
            b"".join(
                json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in ({**header, "schema": 1}, *others)
            )
        )
    )
    assert bundle_file.read_header(str(file)).schema == 1
    assert report(file) == (EXIT_REGRESSION, [])


@pytest.mark.parametrize("order", [("results", "edited"), ("edited", "results")], ids="".join)
def test_of_one_run_with_other_figures_in_two_sources_neither_counts(
    folder: Path, report: Report, order: tuple[str, str]
) -> None:
    for file in folder.glob("*/*/*.json"):
        copy = folder.parent / "edited" / file.relative_to(folder)
        copy.parent.mkdir(parents=True)
        copy.write_bytes(forged(file.read_bytes(), holds_less) if "0.16.4" in copy.parts[-3] else file.read_bytes())
    name = file_of(folder, "0.16.4").relative_to(folder)
    code, said = report(*order)
    assert code == EXIT_HARNESS
    first, second = order
    assert said[0] == (
        f"dsregress: left out: {second}/{name}: the same run as {first}/{name}, with other figures: neither counts; leave "
        "out the one that was edited"
    )
    assert [line for line in said if "left out" in line] == said[:1]


def test_copies_of_a_run_that_agree_count_once(folder: Path, report: Report) -> None:
    publish(str(folder), "copy.jsonl.gz")
    assert report(folder, "copy.jsonl.gz") == (EXIT_REGRESSION, [])


def test_runs_of_one_content_that_began_apart_are_no_copies(tmp_path: Path) -> None:
    stores = [Store(str(tmp_path / name)) for name in ("one", "two")]
    for store, second in zip(stores, ("00", "01"), strict=True):
        store.write(measured("0.16.4", started_at=f"2026-01-01T00:00:{second}Z", held_mib=int(second)))
    problems: list[str] = []
    assert sum(StoredWorkloads(stores).map(lambda results: len(list(results)), problems.append)) == 2
    assert problems == []


@pytest.mark.parametrize(
    ("note", "broken"),
    [
        ("KeyError: 'hidden_size'", True),
        ("OutOfMemoryError: CUDA out of memory", True),
        ("NotImplementedError: of one engine alone", False),
        ("the adapter tells no ideal", False),
        ("a program: what it has to hold is not known", False),
    ],
)
def test_a_pass_of_before_whose_memory_oracle_broke_is_a_failure_of_the_harness(note: str, broken: bool) -> None:
    run = synthetic.record()
    run.ranks[0].ideal_note = note
    read = schema.decode(msgspec.json.encode(synthetic.result(run=run, schema=1)))
    assert read.outcome == (schema.Failed("harness", f"the memory oracle broke: {note}") if broken else schema.Passed())


@pytest.mark.parametrize(
    ("note", "broken"),
    [
        ("KeyError: 'losses' (dsregress/probe/programs/truth/plain_training.py:7)", True),
        ("KeyError: 'losses' (dsregress/programs/truth/plain_training.py:7)", True),
        ("the program was repeated, and NoTruth: plain PyTorch has no tensor_parallel", False),
        ("it draws other random numbers with DeepSpeed than without", False),
    ],
)
def test_a_pass_of_before_whose_numerics_oracle_broke_is_a_failure_of_the_harness(note: str, broken: bool) -> None:
    run = synthetic.record()
    assert run.ranks[0].numerics is not None
    run.ranks[0].numerics.note = f"no truth to compare with, only other releases: {note}"
    read = schema.decode(msgspec.json.encode(synthetic.result(run=run, schema=1)))
    assert read.outcome == (
        schema.Failed("harness", f"the numerics oracle broke: {note}") if broken else schema.Passed()
    )
