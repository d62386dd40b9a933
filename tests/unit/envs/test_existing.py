"""Interpreters that exist already: what is read of them, and what is put beside them."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dsregress.envs import existing
from dsregress.errors import EnvironmentUnavailable, UsageError
from dsregress.model import Environment
from tests.builders import interpreters, tiny_packages

pytestmark = pytest.mark.slow  # environments are built

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
TOOLS = ("checker>=2", "bench>=1")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for name, version, requires in (
        ("mine", "1.0", ()),
        ("trl", "0.24.0", ()),
        ("demanding", "1.0", ("mine==0.9", "trl", 'mine<0.5; extra == "old"')),
        ("shared", "1.0", ()),
        ("shared", "2.0", ()),
        ("checker", "1.0", ()),
        ("checker", "2.0", ("shared",)),
        ("checker", "3.0", ("shared>=2",)),
        ("bench", "1.0", ("checker",)),
    ):
        tiny_packages.wheel(folder, name, version, requires=requires)
    return folder


def wheels(index: Path, *names: str) -> list[Path]:
    return [index / f"{name}-py3-none-any.whl" for name in names]


def read(
    path: Path | str, tmp_path: Path, *, needed: str = "mine", tools: Sequence[str] = (), **more: object
) -> Environment:
    arguments: dict[str, object] = {
        "named": {"mine"},
        "needs": existing.ProbeNeeds(package=needed, tools=tools, pins=""),
        "variables": {"PATH": os.environ["PATH"]},
        "folder": tmp_path / "work",
        "installer": tiny_packages.installer(tmp_path / "index", tmp_path / "cache"),
        **more,
    }
    return existing.read_interpreter(str(path), **arguments)  # type: ignore[arg-type]  # keyword by keyword


def test_its_stack_has_its_versions_and_no_path(index: Path, tmp_path: Path) -> None:
    python = interpreters.make(tmp_path / "envs" / "rlhf", *wheels(index, "mine-1.0", "trl-0.24.0"))
    found = read(python, tmp_path)
    assert found.stack.python.startswith(f"{MINOR}+")
    assert found.stack.existed
    assert found.stack.versions == {"mine": "1.0"}
    assert found.stack.label == "rlhf"
    assert found.installed == {"mine": "1.0", "trl": "0.24.0"}
    assert found.python == str(python)
    assert found.beside == ""
    assert str(tmp_path) not in found.stack.id
    assert read(python, tmp_path, named={"mine", "trl"}).stack.versions == {"mine": "1.0", "trl": "0.24.0"}
    assert read(python.parent.parent, tmp_path).stack == found.stack  # the folder will do


def test_it_says_which_releases_its_packages_demand(index: Path, tmp_path: Path) -> None:
    python = interpreters.make(tmp_path / "envs" / "rlhf", *wheels(index, "mine-1.0", "demanding-1.0"))
    assert read(python, tmp_path).demands == {"demanding": ["mine==0.9"]}


def test_equal_environments_are_one_stack_wherever_they_lie(index: Path, tmp_path: Path) -> None:
    first = read(interpreters.make(tmp_path / "a", *wheels(index, "mine-1.0")), tmp_path)
    second = read(interpreters.make(tmp_path / "elsewhere" / "b", *wheels(index, "mine-1.0")), tmp_path)
    assert first.stack.id == second.stack.id
    assert (first.lock_sha256, first.code_sha256) == (second.lock_sha256, second.code_sha256)


def test_one_more_package_or_an_edit_makes_another_stack(index: Path, tmp_path: Path) -> None:
    place = tmp_path / "a"
    python = interpreters.make(place, *wheels(index, "mine-1.0"))
    before = read(python, tmp_path)
    interpreters.add(place, *wheels(index, "shared-1.0"))
    more = read(python, tmp_path)
    assert more.stack.id != before.stack.id
    assert (more.lock_sha256 != before.lock_sha256, more.code_sha256) == (True, before.code_sha256)
    (interpreters.packages(place) / "mine" / "__init__.py").write_text("edited = True\n")
    edited = read(python, tmp_path)
    assert edited.stack.id != more.stack.id
    assert (edited.lock_sha256, edited.code_sha256 != more.code_sha256) == (more.lock_sha256, True)


def test_what_is_installed_from_a_source_folder_counts_as_it_is_now(index: Path, tmp_path: Path) -> None:
    place, source = tmp_path / "a", tmp_path / "source"
    python = interpreters.make(place, *wheels(index, "mine-1.0"))
    packages = interpreters.packages(place)
    shutil.move(packages / "mine", source / "mine")
    (packages / "__editable__.mine.pth").write_text(f"{source}\n")
    told = {"url": source.as_uri(), "dir_info": {"editable": True}}
    (packages / "mine-1.0.dist-info" / "direct_url.json").write_text(json.dumps(told))
    before = read(python, tmp_path, named=())
    (source / "mine" / "engine.py").write_text("more = 1\n")
    assert read(python, tmp_path, named=()).code_sha256 != before.code_sha256


def test_what_it_prints_at_its_start_is_not_taken_for_an_answer(index: Path, tmp_path: Path) -> None:
    place = tmp_path / "a"
    python = interpreters.make(place, *wheels(index, "mine-1.0"))
    (interpreters.packages(place) / "sitecustomize.py").write_text("print('{\"python\": [3', end='')\n")
    assert read(python, tmp_path).stack.versions == {"mine": "1.0"}


@pytest.mark.parametrize(
    ("prefix", "label"),
    [
        ("/opt/conda/envs/rlhf", "rlhf"),
        ("/srv/project/.venv", "project"),
        ("/home/somebody/venv", "venv"),
        ("/usr", "system"),
        ("/opt/a: b", "a__b"),
    ],
)
def test_its_label_is_what_a_reader_recognises_and_no_users_name(prefix: str, label: str) -> None:
    assert existing._interpreter_label(prefix) == label


def script(file: Path, text: str) -> Path:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def test_what_cannot_be_measured_is_one_line(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(existing, "_VERSION_LIMIT_S", 1.0)
    text = tmp_path / "text"
    text.write_text("")
    empty = interpreters.make(tmp_path / "empty")
    cases = {
        tmp_path / "nowhere": "does not exist; give the path of",
        tmp_path / "index": "is a folder without bin/python; give",
        text: "cannot be executed; give",
        script(tmp_path / "touches", f"touch {tmp_path}/touched; echo hello"): "is not a Python interpreter; give",
        script(tmp_path / "old", "echo Python 3.9.7"): "is Python 3.9, but the probe needs 3.10 or newer; give",
        script(tmp_path / "hangs", "sleep 60"): "did not respond within 1 s; check what blocks it: PATH --version",
        script(
            tmp_path / "broken", "test $1 = --version && echo Python 3.11.1 || { echo no encodings >&2; exit 1; }"
        ): ("cannot list its installed packages: no encodings; check that it works"),
        script(
            tmp_path / "garbage", "echo Python 3.11.1"
        ): "cannot list its installed packages: exit code 0; check that",
        empty: "has no mine; measured processes see no PYTHONPATH",
    }
    for path, line in cases.items():
        with pytest.raises(UsageError) as caught:
            read(path, tmp_path)
        assert str(caught.value).startswith(f"--python: {path} {line}")
        assert "\n" not in str(caught.value)


def test_what_the_probe_needs_lies_beside_it_and_shadows_nothing(index: Path, tmp_path: Path) -> None:
    place = tmp_path / "a"
    python = interpreters.make(place, *wheels(index, "mine-1.0", "shared-1.0"))
    before = interpreters.content(place)
    found = read(python, tmp_path, tools=TOOLS)
    beside = Path(found.beside)
    assert beside.parent == tmp_path / "work" / "beside"
    assert sorted(file.name for file in beside.glob("*.dist-info")) == ["bench-1.0.dist-info", "checker-2.0.dist-info"]
    assert not (beside / "shared").exists()
    assert found.installed == {"bench": "1.0", "checker": "2.0", "mine": "1.0", "shared": "1.0"}
    assert interpreters.content(place) == before
    shutil.rmtree(tmp_path / "index")  # made once
    assert read(python, tmp_path, tools=TOOLS).beside == found.beside


def test_nothing_lies_beside_an_interpreter_that_has_all(index: Path, tmp_path: Path) -> None:
    python = interpreters.make(tmp_path / "a", *wheels(index, "mine-1.0", "checker-2.0", "bench-1.0"))
    assert read(python, tmp_path, tools=TOOLS).beside == ""


def test_what_does_not_go_with_what_it_has_is_one_line(index: Path, tmp_path: Path) -> None:
    python = interpreters.make(tmp_path / "a", *wheels(index, "mine-1.0", "checker-1.0"))
    with pytest.raises(UsageError, match=r"has checker 1.0, but the probe needs >=2; upgrade it in that environment"):
        read(python, tmp_path, tools=TOOLS)
    python = interpreters.make(tmp_path / "b", *wheels(index, "mine-1.0", "shared-1.0"))
    with pytest.raises(
        EnvironmentUnavailable, match=r"^--python: the probe's requirements conflict with the packages in .*/b/"
    ):
        read(python, tmp_path, tools=("checker>=3",))


def test_its_packages_alone_are_read_without_an_installer(index: Path, tmp_path: Path) -> None:
    python = interpreters.make(tmp_path / "envs" / "rlhf", *wheels(index, "mine-1.0", "trl-0.24.0"))
    variables = {"PATH": os.environ["PATH"]}
    assert existing.installed_versions(str(python), variables) == {"mine": "1.0", "trl": "0.24.0"}
    assert existing.installed_versions(str(python.parent.parent), variables) == {"mine": "1.0", "trl": "0.24.0"}
    with pytest.raises(UsageError, match="--python: .*gone does not exist"):
        existing.installed_versions(str(tmp_path / "gone"), variables)
