"""`results/README.md` says what is published, and what is published reads as the folder it was made from."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsregress.cli import cli
from dsregress.cli.named_cells import declared_scenario
from dsregress.config.settings import read_settings
from dsregress.model import Result
from dsregress.store import Store
from dsregress.store.bundle_file import SUFFIX, Bundle
from dsregress.store.measuring_versions import version_history
from dsregress.store.publishing import publish
from tests.paths import ROOT

RESULTS = ROOT / "results"
BUNDLES = sorted(RESULTS.glob(f"*{SUFFIX}"))

#: name | is | cells | releases | measuring version | KiB
_ROW = re.compile(r"^\| `(\S+)` \| [^|]+ \| ([^|]+) \| [^|]+ \| ([^|]+) \| ([\d,]+) \|$", re.MULTILINE)


def unpack(bundle: Path, folder: Path) -> None:
    """The folder that a bundle was made from."""
    opened = Bundle(str(bundle))
    for path in opened.paths():
        data = opened.read(path)
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(data, mtime=0) if path.endswith(".gz") else data)


def test_the_list_names_every_bundle() -> None:
    assert sorted(row[0] for row in _ROW.findall((RESULTS / "README.md").read_text())) == [b.name for b in BUNDLES]


def said_version(result: Result) -> str:
    """The device mode and its measuring version; ``before 1`` where none is known to have the same figures."""
    device, version = result.cell.device, result.measuring_version
    known = {str(entry.version) for entry in version_history()[device]}
    return f"`{device}` {version if version in known else 'before 1'}"


@pytest.mark.slow
@pytest.mark.parametrize("row", _ROW.findall((RESULTS / "README.md").read_text()), ids=lambda row: row[0])
def test_the_list_says_what_a_bundle_holds(row: tuple[str, str, str, str]) -> None:
    name, cells, versions, kib = row
    loaded = Store(str(RESULTS / name)).load()
    assert loaded.problems == ()
    devices = Counter(cell.rpartition("/")[2] for cell in {result.cell.id for result in loaded.results})
    said = re.findall(r"([\d,]+) `(\w+)`", cells)
    assert {device: int(count.replace(",", "")) for count, device in said} == devices
    assert set(versions.split(", ")) == {said_version(result) for result in loaded.results}
    assert int(kib.replace(",", "")) == round((RESULTS / name).stat().st_size / 1024)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["2026-11-26", "2026-11-21-bisect"])
def test_reports_made_from_a_bundle_equal_those_made_from_its_folder(name: str, tmp_path: Path) -> None:
    bundle = RESULTS / f"{name}{SUFFIX}"
    unpack(bundle, tmp_path / name)
    made = {}
    for kind, source in (("folder", tmp_path / name), ("bundle", bundle)):
        reports = tmp_path / kind
        reports.mkdir()
        files = [
            "--json",
            str(reports / "x.json"),
            "--markdown",
            str(reports / "x.md"),
            "--html",
            str(reports / "site"),
        ]
        said = CliRunner().invoke(cli, ["report", str(source), *files], catch_exceptions=False)
        written = {file.relative_to(reports): file.read_bytes() for file in reports.rglob("*") if file.is_file()}
        made[kind] = said.exit_code, said.stdout.replace(str(reports), "REPORTS"), written
    assert made["bundle"][:2] == made["folder"][:2]
    assert made["bundle"][2].keys() == made["folder"][2].keys()
    assert [file for file, data in made["bundle"][2].items() if data != made["folder"][2][file]] == []
    assert len(made["bundle"][2]) > 10


def without_checksums(file: Path) -> list[bytes]:
    header, *lines = gzip.decompress(file.read_bytes()).splitlines()
    lines.insert(0, re.sub(rb'"schema":\d', b"", header, count=1))
    if b'"schema":1' in header:
        return lines
    return [re.sub(rb',"sha256":"[0-9a-f]{64}"}$', b"}", line) for line in lines]


@pytest.mark.parametrize("name", ["2026-11-26", "2026-11-21-bisect"])
def test_a_bundle_of_the_folder_it_becomes_is_the_bundle(name: str, tmp_path: Path) -> None:
    """Line by line: compressed bytes depend on the version of zlib, and bundles of before have no checksums."""
    unpack(RESULTS / f"{name}{SUFFIX}", tmp_path / name)
    again = tmp_path / f"again{SUFFIX}"
    assert publish(str(tmp_path / name), str(again)).problems == ()
    assert without_checksums(again) == without_checksums(RESULTS / f"{name}{SUFFIX}")


@pytest.mark.parametrize(("name", "scenario"), [("2026-11-24-trainer-lora", "trainer_lora")])
def test_published_results_are_of_the_program_as_it_is(name: str, scenario: str) -> None:
    """Else no question about the scenario finds them: a file beside its script is one more source of it."""
    declared = declared_scenario(read_settings(start=ROOT), scenario)
    results = Store(str(RESULTS / f"{name}{SUFFIX}")).load().results
    assert {result.cell.parameters["sources_sha256"] for result in results} == {declared.parameters["sources_sha256"]}
