"""Releases that leave hostile values and hostile files: what was measured is stored, nothing hangs, nothing else suffers."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.offline.project import GOOD, Project, stack, stored
from tests.packages import build

#: Replaces what an engine has as its configuration.
CONFIGURED = """

import sys

class _Unprintable:
    def __repr__(self):
        raise RuntimeError("no")

class _Exiting:
    def __repr__(self):
        sys.exit(0)

_cyclic = [1]
_cyclic.append(_cyclic)
_deep = 1
for _ in range(100_000):
    _deep = [_deep]
_made = Engine.__init__

def _init(self, *arguments, **more):
    _made(self, *arguments, **more)
    self.config = {
        "infinite": float("inf"), "no_number": float("nan"), "half": "\\ud800", "nul": "a\\0b", "bytes": b"x",
        "large": 10 ** 60, "larger": 1 << 1_000_000, "set": {2, 1}, 5: "five", "cyclic": _cyclic, "deep": _deep,
        "unprintable": _Unprintable(), "exiting": _Exiting(), "long": "x" * 100_000_000, "many": list(range(1_000_000)),
    }

Engine.__init__ = _init
"""

#: Replaces what an engine does in its backward.
FAILING = """

class _Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no")

def _backward(self, inputs):
    raise {error}

Engine.backward = _backward
"""

#: Runs in the second step, in the folder of the run.
LEAVING = """

import os

_stepped = Engine.step

def _leave():
    {statement}

def _step(self):
    norm = _stepped(self)
    self.steps = getattr(self, "steps", 0) + 1
    if self.rank == 0 and self.steps == 2:
        _leave()
    return norm

Engine.step = _step
"""

ERRORS = {
    "3.1.0": ("ValueError('half \\ud800')", r"ValueError: half \ud800"),
    "3.1.1": ("ValueError('a\\0b')", r"ValueError: a\x00b"),
    "3.1.2": ("ValueError(float('inf'))", "ValueError: inf"),
    "3.1.3": ("_Unprintable()", "_Unprintable: <_Unprintable that cannot be printed>"),
    "3.1.4": ("ValueError('x' * 100_000_000)", "ValueError: xxx"),
    "3.1.5": ("ValueError(b'\\xff')", "ValueError: b'"),
}

#: What a rank leaves in the folder of its run.
LEFT = {
    "3.2.0": "os.mkfifo('explanation.json')",
    "3.2.1": "os.mkfifo('benchmark.json')",
    "3.2.2": "os.symlink('/dev/zero', 'explanation.json')",
    "3.2.3": "open('explanation.json', 'w').write('[' * 100_000)",
    "3.2.4": "open('explanation.json', 'w').truncate(1 << 40)",
    "3.2.5": "os.mkfifo('record.json')",
    "3.2.6": "os.mkfifo('record.unfinished')",
    "3.2.7": "[os.mkfifo(f'rank-{n}.unfinished') for n in (0, 1)]",
}

#: Runs when the release is imported, on the copy of the probe that it runs in.
REWRITING = """

import dsregress.probe.process.rank_file as _staged

_file = _staged.__file__
os.chmod(_file, 0o644)
with open(_file, "a") as _stream:
    _stream.write("\\nraise RuntimeError('rewritten')\\n")
with open(os.path.join(os.path.dirname(_file), "..", "..", "..", "sitecustomize.py"), "w") as _stream:
    _stream.write("raise RuntimeError('planted')\\n")
"""


@pytest.fixture(scope="module", autouse=True)
def releases(shared: Project) -> None:
    """Releases that differ from the good one in what they leave."""
    index = shared.folder / "index"
    build.build(index, "3.0.0", more=CONFIGURED)
    for version, (error, _) in ERRORS.items():
        build.build(index, version, more=FAILING.replace("{error}", error))
    for version, statement in LEFT.items():
        build.build(index, version, more=LEAVING.replace("{statement}", statement))
    build.build(index, "3.3.0", more="\nimport os\n" + REWRITING)


def configuration(project: Project, version: str) -> dict[str, Any]:
    """What is stored of a release's configuration."""
    (result,) = [found for found in stored(project) if found["cell"]["stack"]["versions"]["tinyframe"] == version]
    part = result["detail_sha256"]["configuration"][:16]
    found: dict[str, Any] = json.loads(gzip.decompress((project.results / "details" / f"{part}.json.gz").read_bytes()))
    return found


def test_a_configuration_of_any_values_is_stored_with_their_meaning(project: Project) -> None:
    project.configure(GOOD, "3.0.0")
    report = project.regress()
    assert report.cell("3.0.0")["outcome"] == "passed"
    found = {name.removeprefix("tinyframe."): value for name, value in configuration(project, "3.0.0").items()}
    assert found["infinite"] == "inf"
    assert found["no_number"] == "nan"
    assert found["half"] == "\\ud800"
    assert found["nul"] == "a\\x00b"
    assert found["bytes"] == "b'x'"
    assert found["large"] == "1" + "0" * 60
    assert found["larger"] == "an integer of 1000001 bits"
    assert found["set"] == [1, 2]
    assert found["5"] == "five"
    assert found["cyclic"] == [1, "... (it holds itself)"]
    assert "nested too deep" in json.dumps(found["deep"])
    assert found["unprintable"] == "<_Unprintable that cannot be printed>"
    assert found["exiting"] == "<_Exiting that cannot be printed>"
    assert found["long"].endswith("... (100000000 characters)")
    assert found["many"][-1] == "... (1000000 members)"


def test_an_error_of_any_text_is_a_finding_with_its_stage(project: Project) -> None:
    project.configure(GOOD, *ERRORS)
    report = project.regress()
    for version, (_, signature) in ERRORS.items():
        found = report.cell(version)
        assert (found["outcome"], found["stage"]) == ("failed", "backward")
        assert found["signature"].startswith(signature)
    assert report.code == 1
    again = project.run("report", "--json", "-")
    assert (again.code, "left out" in again.err) == (1, False)


def test_what_a_rank_leaves_in_the_folder_of_its_run_costs_no_figure(project: Project) -> None:
    project.configure(GOOD, *LEFT, rounds=1)
    report = project.regress()
    good = report.cell(GOOD)
    found = {version: report.cell(version) for version in LEFT}
    assert {version: one["outcome"] for version, one in found.items()} == dict.fromkeys(LEFT, "passed")
    assert all(one["metrics"].keys() == good["metrics"].keys() for one in found.values())
    assert project.processes() == []


def test_a_release_that_rewrites_the_probe_changes_no_later_run(project: Project) -> None:
    project.configure(GOOD, "3.3.0")
    for arguments in ((), ("--fresh",)):
        report = project.regress(*arguments)
        assert report.cell(GOOD)["outcome"] == "passed"
        assert "rewritten" not in json.dumps(report.json)
        line = rf"{stack('3.3.0')} changed the code that measured it \(\S+ and 1 more\): do not trust its results"
        assert len(re.findall(f"^.*{line}$", report.said.err, re.MULTILINE)) == 1


def fifo(file: Path) -> None:
    os.mkfifo(file)


def link_to_zeros(file: Path) -> None:
    file.symlink_to("/dev/zero")


def nested_deep(file: Path) -> None:
    file.write_bytes(b"[" * 100_000)


@pytest.mark.parametrize("make", [fifo, link_to_zeros, nested_deep, Path.mkdir])
def test_what_is_no_result_is_left_out_by_name_and_measured_again(
    project: Project, make: Callable[[Path], None]
) -> None:
    project.configure(GOOD, "2.0.0")
    project.regress()
    (file,) = (project.results / stack("2.0.0") / "fit").glob("base-cpu-*.json")
    file.unlink()
    make(file)
    assert f"left out: results/{stack('2.0.0')}/fit/{file.name}: damaged" in project.run("report").err
    again = project.regress()
    assert f"left out: results/{stack('2.0.0')}/fit/{file.name}: damaged" in again.said.err
    assert again.cell("2.0.0")["outcome"] == "passed"
    assert again.code == 0
