"""Whatever happens to a stored file, a report ends with an answer and never with a fault of the harness."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsregress import cli
from dsregress.errors import EXIT_HARNESS, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION
from dsregress.probe.border.wire import Detail
from dsregress.store import Explanations, Store, detail_hashes, key_of
from tests.builders import synthetic
from tests.builders.comparisons import one_of_each_finding
from tests.builders.edits import forged
from tests.builders.explanations import explanation

#: What a value of a stored result is replaced by.
REPLACEMENTS: list[Any] = [
    *(None, True, 0, -1, 7.5, 10**60, 2**63, 1e308, -1e308, 1e-320),
    *("", "x", "\0", "\u202e\x1b[31m::error::x\n", "9" * 400, "../../etc", "inf", "passed", "2026-99-99T99:99:99Z"),
    *([], {}, [[]], [1], [1, 2, 3], {"a": 1}, {"type": "passed"}, json.loads("[" * 300 + "]" * 300)),
]

REMOVED = object()


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    store = Store(str(folder))
    for result in one_of_each_finding():
        store.write(result)
    return folder


def places(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values in a document."""
    if path:
        yield path
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for name, value in inner:
        yield from places(value, (*path, name))


def substituted(data: bytes, path: tuple[str | int, ...], by: object) -> bytes:
    def substitute(at: Any) -> None:
        for name in path[:-1]:
            at = at[name]
        if by is REMOVED:
            del at[path[-1]]
        else:
            at[path[-1]] = by

    return forged(data, substitute)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """A stored result with flipped bits, cut off, or with another value somewhere."""
    kind = draw(st.sampled_from(["value", "value", "bits", "end"]))
    if kind == "value":
        found = [path for path in places(json.loads(data)) if path != ("sha256",)]
        return substituted(data, draw(st.sampled_from(found)), draw(st.sampled_from([*REPLACEMENTS, REMOVED])))
    if kind == "end":
        return data[: draw(st.integers(0, len(data)))]
    content = bytearray(data)
    for bit in draw(st.lists(st.integers(0, 8 * len(data) - 1), min_size=1, max_size=4)):
        content[bit // 8] ^= 1 << bit % 8
    return bytes(content)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_report_ends_with_an_answer(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: st.DataObject
) -> None:
    folder = tmp_path / "results"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(stored, folder)
    files = sorted(folder.glob("*/*/*.json"))
    bad = data.draw(st.sampled_from(files), label="file")
    content = data.draw(damaged(bad.read_bytes()), label="content")
    bad.write_bytes(content)
    baseline = one_of_each_finding()[0].cell.stack.id
    with pytest.raises(SystemExit) as ended:
        cli.run_command_line(["report", str(folder), "--baseline", baseline, "--json", str(tmp_path / "report.json")])
    said = capsys.readouterr()
    assert "a fault of the harness itself" not in said.err
    assert "Traceback" not in said.err
    assert ended.value.code in (EXIT_OK, EXIT_REGRESSION, EXIT_HARNESS, EXIT_NOTHING_MEASURED)
    for line in said.err.splitlines():
        if "left out" in line:
            assert bad.name in line
    loaded = Store(str(folder)).load()
    assert len(loaded.results) + len(loaded.problems) == len(files)
    assert len(loaded.problems) == said.err.count("left out: ")


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, list[str]]:
    """The exit code of `report`, and what it left out."""
    with pytest.raises(SystemExit) as ended:
        cli.run_command_line(["report", *arguments])
    said = capsys.readouterr()
    return ended.value.code, [line for line in said.err.splitlines() if "left out" in line]


def test_of_several_sources_one_that_is_no_bundle_is_left_out(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.jsonl.gz"
    bad.write_bytes(b"not gzip")
    alone = report(capsys, str(stored))
    assert alone == (EXIT_REGRESSION, [])
    code, lines = report(capsys, str(stored), str(bad))
    assert code == EXIT_REGRESSION
    assert lines == [f"dsregress: left out: {bad}: not a bundle of results; `bundle FOLDER` makes one"]
    assert report(capsys, str(bad)) == (EXIT_HARNESS, [])
    sound = Store(str(tmp_path / "sound"))
    made = list(synthetic.results(2, 2, timed=False))
    for result in made:
        sound.write(result)
    baseline = ("--baseline", made[0].cell.stack.id)
    assert report(capsys, sound.folder, *baseline)[0] == EXIT_OK
    assert report(capsys, sound.folder, str(bad), *baseline)[0] == EXIT_HARNESS  # a part is unknown: no pass


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", b"not gzip", gzip.compress(bytes(1 << 25)), None])
def test_a_damaged_detail_or_explanation_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: bytes | None
) -> None:
    store = Store(str(tmp_path / "results"))
    made = list(synthetic.results(3, 2, timed=False))
    for at, result in enumerate(made):
        detail = Detail(configuration={"release": result.cell.stack.id})
        store.write(msgspec.structs.replace(result, detail_sha256=detail_hashes(detail)), detail)
        Explanations(store.folder).write(key_of(result), result.cell.id, explanation(at))
    files = sorted((tmp_path / "results" / "details").iterdir())
    for file in files:
        file.unlink()
        if damage is None:
            os.mkfifo(file)
        else:
            file.write_bytes(damage)
    code, lines = report(capsys, store.folder, "--baseline", made[0].cell.stack.id)
    assert code in (EXIT_OK, EXIT_REGRESSION)
    assert lines
    assert len(lines) == len(set(lines))
    for line in lines:
        assert re.match(r"dsregress: left out: results/details/(explained-)?[0-9a-f]{16}\.json\.gz: damaged: ", line)
