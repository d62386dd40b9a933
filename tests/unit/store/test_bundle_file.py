"""A bundle reads as the folder that it was made from; what is damaged is named and left out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from dsregress.errors import NothingMeasured, ResultsError, UsageError
from dsregress.model import Result
from dsregress.probe.border.wire import Detail, Explanation
from dsregress.store import Explanations, Store, StoredWorkloads, bundle_file, key_of
from dsregress.store.publishing import publish, unpack
from tests.builders.edits import forged
from tests.builders.synthetic import stored_result as result

DETAIL = Detail(host_functions={"forward": {"f": 3}}, configuration={"a.b": 1}, warnings={"w": 2})
SPELLED = '{\n  "schema": 1,\n  "exit_code": 0\n}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two results with details, one with a file for pytest-benchmark, an explanation, and the JSON of a bisection."""
    folder = tmp_path / "run"
    store, second = Store(str(folder)), result(code_sha256="other", detail=DETAIL)
    store.write(result(detail=DETAIL), DETAIL, {"benchmarks": []})
    store.write(second, DETAIL)
    Explanations(str(folder)).write(key_of(second), second.cell.id, Explanation())
    (folder / "began.json").write_text(SPELLED)
    return folder


@pytest.fixture
def bundled(folder: Path) -> Path:
    file = folder.parent / "run.jsonl.gz"
    publish(str(folder), str(file))
    return file


def lines(file: Path) -> list[bytes]:
    return gzip.decompress(file.read_bytes()).splitlines(keepends=True)


def edited(file: Path, edit: Callable[[list[bytes]], list[bytes]]) -> Path:
    file.write_bytes(gzip.compress(b"".join(edit(lines(file)))))
    return file


def test_it_holds_what_the_folder_holds(folder: Path, bundled: Path) -> None:
    from_folder, from_bundle = Store(str(folder)), Store(str(bundled))
    assert from_bundle.load() == from_folder.load()
    assert len(from_bundle.load().results) == 2
    assert from_bundle.stack_ids() == from_folder.stack_ids()
    assert from_bundle.detail(result(detail=DETAIL).detail_sha256) == DETAIL


def test_cells_are_found_in_it_by_their_content(bundled: Path) -> None:
    store, one = Store(str(bundled)), result(detail=DETAIL)
    assert store.of_cell(one.cell, key_of(one)).results == (one,)
    assert len(store.runs(one.cell)) == 2


def test_explanations_are_found_in_it(bundled: Path) -> None:
    explanations = Explanations(str(bundled))
    assert not explanations.is_empty()
    assert explanations.read(key_of(result(code_sha256="other"))) == Explanation()
    assert explanations.read(key_of(result())) is None


def _ids(results: Iterable[Result]) -> list[str]:
    return [found.code_sha256 for found in results]


def test_its_workloads_are_judged_as_those_of_a_folder(folder: Path, bundled: Path) -> None:
    def codes(path: Path) -> list[list[str]]:
        return list(StoredWorkloads([Store(str(path))]).map(_ids, pytest.fail))

    assert codes(bundled) == codes(folder)
    assert sorted(codes(bundled)[0]) == ["c", "other"]


def test_it_is_json_lines_with_a_header_that_says_what_it_is(bundled: Path) -> None:
    header, *others = [json.loads(line) for line in lines(bundled)]
    assert (header["schema"], header["kind"]) == (2, "bundle")
    assert "dsregress" in header["about"]
    assert header["lines"] == {"result": 2, "benchmark": 1, "explanation": 1, "detail": 3, "other": 1}
    assert [line["kind"] for line in others] == ["result"] * 2 + ["benchmark", "explanation"] + ["detail"] * 3 + [
        "other"
    ]
    assert others[0]["content"]["cell"]["scenario"] == "llama"


def test_each_line_holds_its_file_byte_for_byte(folder: Path, bundled: Path) -> None:
    opened = bundle_file.Bundle(str(bundled))
    for file in folder.rglob("*.json*"):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        assert opened.read(file.relative_to(folder).as_posix()).strip() == data.strip()
    assert opened.read("began.json").decode() == SPELLED


def test_equal_folders_make_equal_bytes(folder: Path, bundled: Path) -> None:
    again = folder.parent / "again.jsonl.gz"
    publish(str(folder), str(again))
    assert again.read_bytes() == bundled.read_bytes()


def test_it_never_replaces_a_file(folder: Path, bundled: Path) -> None:
    before = bundled.read_bytes()
    with pytest.raises(UsageError, match="already exists"):
        publish(str(folder), str(bundled))
    assert bundled.read_bytes() == before


def test_it_is_whole_or_absent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device", "it")

    monkeypatch.setattr("os.link", fail)
    with pytest.raises(ResultsError, match="No space left"):
        publish(str(folder), str(folder.parent / "it.jsonl.gz"))
    assert sorted(file.name for file in folder.parent.iterdir()) == ["run"]


def test_its_name_says_what_it_is(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"ends with \.jsonl\.gz"):
        publish(str(folder), str(folder.parent / "run.zip"))
    (folder.parent / "run.json").write_text("{}")
    with pytest.raises(UsageError, match="neither a folder of results nor a bundle"):
        Store(str(folder.parent / "run.json"))


def test_a_folder_without_results_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match="no results"):
        publish(str(tmp_path), str(tmp_path / "it.jsonl.gz"))


def test_pages_about_results_are_no_part_of_it_and_no_damage(folder: Path, bundled: Path) -> None:
    pages = folder / "reproducers"
    pages.mkdir()
    for name in ("README.md", "quarter.py", "quarter.json"):
        (pages / name).write_text(SPELLED)
    again = folder.parent / "again.jsonl.gz"
    assert publish(str(folder), str(again)).problems == ()
    assert again.read_bytes() == bundled.read_bytes()


def test_what_is_damaged_in_the_folder_is_named_and_left_out(folder: Path) -> None:
    (file,) = [f for f in folder.rglob("base-cpu-*.json") if f.with_suffix(".benchmark.json").exists()]
    file.write_text('{"schema": 1, "cell"')
    (detail, *_) = [f for f in (folder / "details").iterdir() if not f.name.startswith("explained")]
    detail.write_bytes(gzip.compress(b'{"another": 1}'))
    published = publish(str(folder), str(folder.parent / "run.jsonl.gz"))
    assert published.lines["result"] == 1
    assert published.lines["detail"] == 2
    assert [line.partition(": ")[0] for line in published.problems] == [
        detail.relative_to(folder).as_posix(),
        file.relative_to(folder).as_posix(),
    ]


def test_a_damaged_line_is_named_and_hides_no_other(bundled: Path) -> None:
    edited(bundled, lambda found: [found[0], b'{"kind": "result", "pa\n', *found[2:]])
    loaded = Store(str(bundled)).load()
    assert len(loaded.results) == 1
    assert len(loaded.problems) == 1
    assert loaded.problems[0].startswith("run.jsonl.gz: line 2: damaged: ")


def test_a_damaged_result_is_named_by_its_path(bundled: Path) -> None:
    def damage(found: list[bytes]) -> list[bytes]:
        line = forged(found[1], lambda line: line["content"].update(duration_s="long"))
        return [found[0], line + b"\n", *found[2:]]

    loaded = Store(str(edited(bundled, damage))).load()
    assert len(loaded.results) == 1
    assert loaded.problems[0].startswith("run.jsonl.gz/py3.11-deepspeed0.16.4/llama/base-cpu-")


def test_a_bundle_that_is_cut_off_gives_what_it_still_has(bundled: Path) -> None:
    data = bundled.read_bytes()
    bundled.write_bytes(data[: len(data) - 40])
    loaded = Store(str(bundled)).load()
    assert len(loaded.results) == 2
    assert "damaged, or cut off, after line" in loaded.problems[0]


def test_a_line_without_end_is_not_held(bundled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_file, "MOST_LINE_BYTES", 1 << 20)
    edited(bundled, lambda found: [found[0], b" " * (5 << 20) + b"\n", *found[1:]])
    loaded = Store(str(bundled)).load()
    assert loaded.problems == ("run.jsonl.gz: line 2: damaged: longer than 1 MiB",)
    assert len(loaded.results) == 2


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "../up.json", "a/../b.json", "a//b.json", ".hidden", "a/.b", "", "a/b/c/d.json"),
        pytest.param("a/" * 3_000 + "b.json", id="3,000 folders"),
    ],
)
def test_a_path_that_leads_out_of_a_folder_is_damage(bundled: Path, path: str) -> None:
    line = json.dumps({"kind": "other", "path": path, "content": {}}).encode() + b"\n"
    edited(bundled, lambda found: [*found, line])
    assert "is not a path in a results folder" in Store(str(bundled)).load().problems[0]


def test_a_file_that_stands_twice_counts_once(bundled: Path) -> None:
    edited(bundled, lambda found: [*found, found[1]])
    loaded = Store(str(bundled)).load()
    assert len(loaded.results) == 2
    assert loaded.problems[0].endswith(".json: a second time")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(b"", mtime=0), "not a bundle of results"),
        (b"not gzip", "not a bundle of results"),
        (gzip.compress(b'{"schema": 1}\n', mtime=0), "not a bundle of results"),
        (gzip.compress(b'{"schema": 9, "kind": "bundle", "about": "", "lines": {}}\n', mtime=0), "update dsregress"),
    ],
    ids=["empty", "not gzip", "another header", "a newer schema"],
)
def test_another_file_by_that_name_is_an_error(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(data)
    with pytest.raises(ResultsError, match=message):
        Store(str(tmp_path / "x.jsonl.gz")).load()


def test_nothing_is_added_to_a_bundle(bundled: Path) -> None:
    with pytest.raises(ResultsError, match="a bundle is read-only"):
        Store(str(bundled)).check_writable()


def test_a_detail_that_another_zlib_has_compressed_is_the_same_detail(bundled: Path, tmp_path: Path) -> None:
    again = str(tmp_path / "again")
    unpack(str(bundled), again)
    for file in Path(again, "details").iterdir():
        file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()), compresslevel=1, mtime=0))
    assert unpack(str(bundled), again).problems == ()


def test_a_folder_that_cannot_be_made_says_where_to_unpack(bundled: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ResultsError, match=r"file: cannot be unpacked: it is a file where a folder is needed; move"):
        unpack(str(bundled), str(tmp_path / "file"))
