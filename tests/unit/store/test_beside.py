"""JSON that lies beside results, in a folder and in its bundles."""

from __future__ import annotations

from pathlib import Path

from dsregress.store import files_beside
from dsregress.store.bundle_file import Entry, pack


def bundle(files: dict[str, bytes]) -> bytes:
    return pack([Entry("other", name, content) for name, content in files.items()])


def test_files_of_a_folder_and_of_its_bundles_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl.gz").write_bytes(bundle({"began.json": b'{"a": 1}\n', "notes.txt": b'"no JSON"'}))
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "c.txt").write_text("no JSON")
    found = [(str(Path(path).relative_to(tmp_path)), content) for path, content in files_beside(str(tmp_path))]
    assert found == [("a.json", b"{}"), ("b.jsonl.gz/began.json", b'{"a": 1}')]


def test_there_is_nothing_beside_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert list(files_beside(str(tmp_path / "none"))) == []


def test_what_cannot_be_read_is_named_and_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(b"no bundle")
    (tmp_path / "b.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "c.json").write_text("{}")
    left: list[str] = []
    found = [Path(path).name for path, _ in files_beside(str(tmp_path), lambda file, why: left.append(Path(file).name))]
    assert found == ["c.json"]
    assert left == ["a.jsonl.gz", "b.json"]
