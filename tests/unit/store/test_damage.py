"""One damaged file among results is one line that names it; everything else goes on."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dsregress.errors import ResultsError
from dsregress.probe.border.wire import Detail
from dsregress.store import Explanations, Store, StoredWorkloads, key_of
from dsregress.store import bundle_file as bundles
from dsregress.store.publishing import publish
from tests.builders.edits import forged
from tests.builders.explanations import explanation
from tests.builders.synthetic import record, stored_result

DETAIL = Detail(host_functions={"forward": {"f": 3}}, configuration={"a.b": 1}, warnings={"w": 2})


def replaced(data: bytes, *path: str | int, by: object) -> bytes:
    """A stored result with another value in it, and the checksum of that."""

    def replace(at: Any) -> None:
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = by

    return forged(data, replace)


PEAK = ("record", "ranks", 0, "phases", "init", "device_peak_bytes")

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[:200],
    "a flipped bit in a text": lambda data: data.replace(b"a processor", b"a proc\xe5ssor"),
    "half of a character": lambda data: data.replace(b"a processor", b"a \\ud800 processor"),
    "nested 100,000 deep": lambda data: b'{"schema":1,"cell":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "parameters nested 300 deep": lambda data: replaced(data, "cell", "parameters", "x", by=nested(300)),
    "a size of 10**60": lambda data: replaced(data, *PEAK, by=10**60),
    "a negative size": lambda data: replaced(data, *PEAK, by=-1),
    "a size that is a text": lambda data: replaced(data, *PEAK, by="many"),
    "a time of 1e308 s": lambda data: replaced(data, "record", "round_s", by=[1e308]),
    "a time that no number holds": lambda data: data.replace(b'"duration_s":', b'"duration_s":1e999,"x":'),
    "a count without its size": lambda data: replaced(data, *PEAK[:-1], "collectives", by={"all_gather": [1]}),
    "a group whose ranks are no numbers": lambda data: replaced(
        data, *PEAK[:-1], "groups", by={"all_gather x": [1, 1]}
    ),
    "a group of 10**12 ranks": lambda data: replaced(data, *PEAK[:-1], "groups", by={f"reduce 0-{10**12}": [1, 1]}),
    "a group that steps by nothing": lambda data: replaced(data, *PEAK[:-1], "groups", by={"reduce 0-7/0": [1, 1]}),
    "no number of ranks": lambda data: replaced(data, "cell", "parameters", "world_size", by="two"),
    "an impossible number of ranks": lambda data: replaced(data, "cell", "parameters", "world_size", by=10**60),
    "another stack": lambda data: replaced(data, "cell", "stack", "versions", by={"deepspeed": "../../../up"}),
    "a schema of the future": lambda data: b'{"schema": 99}',
    "an impossible schema": lambda data: b'{"schema": ' + b"9" * 5000 + b"}",
    "32 MiB of spaces": lambda data: b" " * (32 << 20) + data,
}


def nested(levels: int) -> object:
    found: object = 1
    for _ in range(levels):
        found = [found]
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two results."""
    store = Store(str(tmp_path / "results"))
    one = msgspec.structs.replace(stored_result(detail=DETAIL), record=record())
    store.write(one, DETAIL)
    Explanations(store.folder).write(key_of(one), one.cell.id, explanation(1))
    store.write(msgspec.structs.replace(stored_result(code_sha256="other", session="second"), record=record()))
    return tmp_path / "results"


def result_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*/*/*.json"))


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_result_is_left_out_by_name_whatever_reads_it(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    bad, good = result_files(folder)
    before = bad.read_bytes()
    content = damage(before)
    assert content != before
    bad.write_bytes(content)
    store = Store(str(folder))
    loaded = store.load()
    assert len(loaded.results) == 1
    (line,) = loaded.problems
    assert line.startswith(f"results/{bad.relative_to(folder)}: ")
    assert "damaged" in line or "newer version" in line or "named wrongly" in line
    assert "\n" not in line
    assert len(line) < 400
    problems: list[str] = []
    assert sum(StoredWorkloads([store]).map(lambda results: len(list(results)), problems.append)) == 1
    assert problems == [line]
    (kept,) = loaded.results
    assert store.last_run(kept.cell) == kept
    assert bad.read_bytes() == content
    published = publish(str(folder), str(folder / "x.jsonl.gz"))
    assert published.lines["result"] == 1
    assert good.exists()


@pytest.mark.parametrize("kind", ["folder", "fifo", "link to zeros", "link to nothing", "sparse terabyte"])
def test_what_is_no_file_among_results_is_left_out_by_name(folder: Path, kind: str) -> None:
    bad, _ = result_files(folder)
    bad.unlink()
    if kind == "folder":
        bad.mkdir()
    elif kind == "fifo":
        os.mkfifo(bad)
    elif kind == "link to zeros":
        bad.symlink_to("/dev/zero")
    elif kind == "link to nothing":
        bad.symlink_to("absent")
    else:
        with bad.open("wb") as stream:
            stream.truncate(1 << 40)
    loaded = Store(str(folder)).load()
    assert len(loaded.results) == 1
    (line,) = loaded.problems
    assert line.startswith(f"results/{bad.relative_to(folder)}: damaged: ")
    assert any(bad.name in problem for problem in publish(str(folder), str(folder / "x.jsonl.gz")).problems)


def truncated(data: bytes) -> bytes:
    return data[:-9]


def wrong_checksum(data: bytes) -> bytes:
    return data[:-8] + bytes(4) + data[-4:]


def bomb(data: bytes) -> bytes:
    return gzip.compress(bytes(1 << 26), mtime=0)


def flipped_inside(data: bytes) -> bytes:
    return gzip.compress(gzip.decompress(data).replace(b'"', b"\xff", 1), mtime=0)


def nested_deep(data: bytes) -> bytes:
    return gzip.compress(b"[" * 100_000 + b"]" * 100_000, mtime=0)


@pytest.mark.parametrize(
    "damage",
    [
        truncated,
        wrong_checksum,
        pytest.param(bomb, marks=pytest.mark.slow),
        flipped_inside,
        nested_deep,
        lambda data: b"",
    ],
)
def test_a_damaged_explanation_or_detail_is_as_if_it_were_not_there(
    folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    for file in (folder / "details").iterdir():
        file.write_bytes(damage(file.read_bytes()))
    store = Store(str(folder))
    (one,) = [found for found in store.load().results if found.detail_sha256]
    assert store.detail(one.detail_sha256) is None
    assert Explanations(store.folder).read(key_of(one)) is None
    problems = publish(str(folder), str(folder / "x.jsonl.gz")).problems
    assert {problem.split(":")[1].strip() for problem in problems} == {"damaged"}
    assert len(problems) == len(list((folder / "details").iterdir()))


@pytest.mark.parametrize("kind", ["fifo", "zeros"])
def test_a_detail_that_never_ends_is_as_if_it_were_not_there(folder: Path, kind: str) -> None:
    for file in (folder / "details").iterdir():
        file.unlink()
        os.mkfifo(file) if kind == "fifo" else file.symlink_to("/dev/zero")
    store = Store(str(folder))
    (one,) = [found for found in store.load().results if found.detail_sha256]
    assert store.detail(one.detail_sha256) is None
    assert Explanations(store.folder).read(key_of(one)) is None
    store.write_detail(DETAIL)  # measured again
    assert store.detail(one.detail_sha256) == DETAIL


@pytest.mark.slow
def test_a_bundle_that_decompresses_without_end_gives_what_came_before(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "MOST_BYTES", 1 << 22)
    file = tmp_path / "x.jsonl.gz"
    publish(str(folder), str(file))
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()) + bytes(1 << 26), mtime=0))
    loaded = Store(str(file)).load()
    assert len(loaded.results) == 2
    assert any("decompresses to more than 4 MiB" in problem for problem in loaded.problems)


def test_a_bundle_of_damaged_lines_alone_is_a_hundred_lines_at_most(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl.gz"
    publish(str(folder), str(file))
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()) + b"\n" * 100_000, mtime=0))
    loaded = Store(str(file)).load()
    assert len(loaded.results) == 2
    assert loaded.problems[-1] == "x.jsonl.gz: 99900 more lines: damaged"
    assert len(loaded.problems) == 101


def test_a_line_nested_without_end_hides_no_other(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl.gz"
    publish(str(folder), str(file))
    deep = b'{"kind":"result","path":"a/b/c.json","content":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()) + deep, mtime=0))
    loaded = Store(str(file)).load()
    assert len(loaded.results) == 2
    assert len(loaded.problems) == 1


def test_a_bundle_that_is_a_pipe_is_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl.gz")
    with pytest.raises(ResultsError, match="a FIFO, not a regular file"):
        Store(str(tmp_path / "x.jsonl.gz")).load()


def test_a_bundle_is_read_through_a_link_that_the_user_names(folder: Path, tmp_path: Path) -> None:
    publish(str(folder), str(tmp_path / "x.jsonl.gz"))
    (tmp_path / "latest.jsonl.gz").symlink_to("x.jsonl.gz")
    assert len(Store(str(tmp_path / "latest.jsonl.gz")).load().results) == 2


def test_of_two_that_store_one_content_at_once_both_are_kept(tmp_path: Path) -> None:
    """Each with the companion of its own run."""
    together = threading.Barrier(8, timeout=60)
    files: list[str] = []

    def write(number: int) -> None:
        store = Store(str(tmp_path))
        one = msgspec.structs.replace(stored_result(), session=f"session-{number}")
        together.wait()
        files.append(store.write(one, DETAIL, {"benchmarks": [{"of": f"session-{number}"}]}))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loaded = Store(str(tmp_path)).load()
    assert sorted(found.session for found in loaded.results) == [f"session-{number}" for number in range(8)]
    assert loaded.problems == ()
    for file in map(Path, files):
        companion = json.loads(file.with_name(f"{file.stem}.benchmark.json").read_text())
        assert companion["benchmarks"][0]["of"] == json.loads(file.read_text())["session"]
    assert len(Store(str(tmp_path)).of_cell(loaded.results[0].cell, key_of(loaded.results[0])).results) == 8


def test_a_result_that_cannot_be_written_leaves_no_companion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path))
    monkeypatch.setattr("dsregress.store.schema.encode", lambda result: [b"not bytes", None])
    with pytest.raises(TypeError):
        store.write(stored_result(), benchmark={"benchmarks": [1]})
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
