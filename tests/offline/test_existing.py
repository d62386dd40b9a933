"""Environments that the user has made, as stacks: measured as they are, compared with each other and with built ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import interpreters
from tests.offline.project import GOOD, VERSION, Project, stored
from tests.packages import build

HUNGRY = VERSION["hungry"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    build.build_all(folder)
    return folder


def made(place: Path, wheels: Path, version: str) -> Path:
    return interpreters.make(place, wheels / f"tinyframe-{version}-py3-none-any.whl")


def test_two_are_compared_and_left_as_they_are(project: Project, wheels: Path, tmp_path: Path) -> None:
    old, new = (made(tmp_path / "envs" / name, wheels, v) for name, v in (("old", GOOD), ("new", HUNGRY)))
    before = [interpreters.content(python.parent.parent) for python in (old, new)]
    report = project.regress("--python", str(old), "--python", str(new))
    assert report.code == 1, report.said.err
    ids = {one["name"]: one["id"] for one in report.json["stacks"]}
    versions = {one["name"]: one["versions"] for one in report.json["stacks"]}
    assert versions == {"old": {"tinyframe": GOOD}, "new": {"tinyframe": HUNGRY}}
    base, other = ids["old"], ids["new"]
    assert report.json["baseline"] == base
    held = [found for found in report.json["findings"] if found["metric"] == "device_retained_bytes"]
    assert [(found["stack"], found["value"]) for found in held] == [(other, 24_000)]
    assert [interpreters.content(python.parent.parent) for python in (old, new)] == before
    kept = "".join(file.read_text() for file in project.results.rglob("*.json")) + json.dumps(report.json)
    assert str(tmp_path / "envs") not in kept
    # What is stored counts for the same environment elsewhere, and every command that reads results has it.
    moved = made(tmp_path / "moved", wheels, HUNGRY)
    again = project.regress("--python", str(old), "--python", str(moved), "--details")
    assert again.said.err == "all 2 stored\n"
    assert "--python PATH-OF-old --python PATH-OF-moved" in again.said.out
    assert project.run("compare", base, other).code == 1
    assert other in project.run("show").out
    assert project.run("report").code == 1
    explained = project.run("explain", "fit/base/cpu", "--python", str(old), "--python", str(new))
    assert explained.code in (0, 4), explained.err
    lost = project.run("explain", f"{other}/fit/base/cpu", "--fresh")
    assert (lost.code, lost.err.count("\n")) == (2, 1)
    assert "is an existing interpreter and cannot be built; name it: --python PATH" in lost.err


def test_releases_are_compared_with_it(project: Project, wheels: Path, tmp_path: Path) -> None:
    python = made(tmp_path / "mine", wheels, GOOD)
    report = project.regress("--python", str(python), "--with", f"tinyframe={HUNGRY}")
    assert report.code == 1, report.said.err
    names = {one["id"]: one["name"] for one in report.json["stacks"]}
    assert (names[report.json["baseline"]], sorted(names.values())) == ("mine", [HUNGRY, "mine"])
    assert {result["cell"]["stack"]["versions"]["tinyframe"] for result in stored(project)} == {GOOD, HUNGRY}


def test_one_alone_is_measured(project: Project, wheels: Path, tmp_path: Path) -> None:
    report = project.regress("--python", str(made(tmp_path / "mine", wheels, GOOD).parent.parent))
    assert report.code == 0, report.said.err
    assert len(stored(project)) == 1


def test_what_cannot_be_compared_is_one_line(project: Project, wheels: Path, tmp_path: Path) -> None:
    python = str(made(tmp_path / "mine", wheels, GOOD))
    same = str(made(tmp_path / "same", wheels, GOOD))
    for arguments, line in (
        (("--python", python, "--python", same), f"--python: {python} and {same} hold the same packages and code; "
         "drop one of them"),
        (("--python", python, "--baseline", GOOD), "--baseline: the first --python is the baseline; drop --baseline"),
        (("--python", python, "--executor", "docker"),
         "--python: cannot be combined with the executor docker; drop --executor"),
        (("--python", "/bin/ls"), "--python: /bin/ls is not a Python interpreter; give the path of an "
         "environment's interpreter, as /opt/conda/envs/a/bin/python"),
    ):  # fmt: skip
        said = project.run("regress", *arguments)
        assert (said.code, said.out, said.err) == (2, "", f"dsregress: error: {line}\n")
    assert not project.results.exists()
