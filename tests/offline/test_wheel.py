"""A user has the wheel and a folder of their own, and no checkout."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from dsregress.advisories.shipped import read_advisories
from tests.builders import wheels
from tests.offline.project import GOOD, SCENARIOS, VERSION, Project
from tests.paths import ROOT, SOURCE
from tests.unit.advisories.table import FOLDER

HUNGRY = VERSION["hungry"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build_distribution("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.install_wheel(wheel, tmp_path_factory.mktemp("installed") / "venv")


@pytest.fixture
def user(programs: Path, shared: Project, tmp_path: Path) -> Project:
    """A user in an empty folder."""
    variables = {name: value for name, value in shared.variables.items() if name != "PYTHONPATH"}
    return Project(folder=tmp_path, variables=variables, work=shared.work, program=(str(programs / "dsregress"),))


def below(folder: Path) -> set[str]:
    """The files below a folder, without what Python compiled."""
    files = {file.relative_to(folder) for file in folder.rglob("*") if file.is_file()}
    return {file.as_posix() for file in files if "__pycache__" not in file.parts}


def test_the_wheel_holds_every_file_of_the_packages_and_installs_nothing_else(wheel: Path) -> None:
    names = {name for name in wheels.contents(wheel) if not name.startswith("dsregress-")}
    scenarios = {f"dsregress/scenarios/{name}" for name in below(ROOT / "scenarios")}
    advisories = {f"dsregress/advisories/data/{name}" for name in below(FOLDER)}
    assert names == below(SOURCE) | scenarios | advisories
    assert {name.partition("/")[0] for name in names} == {"dsregress", "skeletons", "vgpu"}


def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = wheels.build_distribution("sdist", tmp_path)
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path)
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    again = wheels.build_distribution("wheel", tmp_path / "again", source)
    assert again.name == wheel.name
    assert wheels.contents(again) == wheels.contents(wheel)


def test_an_empty_folder_has_the_scenarios_that_ship(user: Project) -> None:
    said = user.run("scenarios")
    assert (said.code, said.err) == (0, "")
    assert "\nllama_zero3_backward (version " in f"\n{said.out}"
    assert user.run("report").code == user.run("show").code == 4
    assert list(user.folder.iterdir()) == []


def test_the_advisories_ship(user: Project) -> None:
    (user.folder / "requirements.txt").write_text("deepspeed==0.16.4\n")
    (user.folder / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    job = ("--config", "ds.json", "--ranks", "8", "--set", "gradient_checkpointing=non_reentrant")
    said = user.run("audit", "-r", "requirements.txt", *job)
    assert said.code == 1, said.err
    (held,) = [one.id for one in read_advisories() if one.evidence.script == "held_layers.py"]
    assert held in said.out


def test_a_repository_gets_its_job_and_then_an_answer_without_options(user: Project) -> None:
    (user.folder / "requirements.txt").write_text("deepspeed==0.16.4\n")
    (user.folder / "train.py").write_text("import deepspeed\ndeepspeed.initialize()\n")
    (user.folder / "README.md").write_text("```\ndeepspeed --num_gpus 8 train.py\n```\n")
    said = user.run("init")
    assert (said.code, said.err) == (0, "")
    written = {file.relative_to(user.folder).as_posix() for file in user.folder.rglob("*.yml")}
    assert written == {".github/workflows/dsregress.yml", ".github/workflows/dsregress-comment.yml"}
    said = user.run("audit")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("none of ")


def test_a_program_is_planned_in_an_empty_folder(user: Project) -> None:
    """The locks of the stacks ship too, so that no index is asked."""
    (user.folder / "train.py").write_text("import deepspeed\n")
    versions = ("--deepspeed", "0.15.0,0.16.4", "--transformers", "4.57.6")
    said = user.run("regress", "--program", "python train.py", *versions, "--device", "cpu", "--dry-run")
    assert said.code == 0, said.err
    cells = said.out.splitlines()[:2]
    assert ["deepspeed0.15.0/train-" in cells[0], "deepspeed0.16.4/train-" in cells[1]] == [True, True]
    assert user.run("regress", "--deepspeed", "0.15.0,0.16.4", "--dry-run").code == 0


def test_a_program_of_a_script_is_what_the_script_starts(user: Project) -> None:
    (user.folder / "train.py").write_text("import deepspeed\n")
    (user.folder / "other.py").write_text("import torch\n")
    (user.folder / "run.sh").write_text("for n in $@; do python ${P:-train}.py --n $n > log; P=other; done\n")
    how = ("--deepspeed", "0.16.4", "--baseline", "0.16.4", "--transformers", "4.57.6", "--device", "cpu", "--dry-run")
    said = user.run("regress", "--program", "bash run.sh 1 2>&1 | tee out", *how)
    assert said.code == 0, said.err
    assert "dsregress: --program starts: python train.py --n 1\n" in said.err
    typed = user.run("regress", "--program", "python train.py --n 1", *how)
    assert typed.out == said.out
    said = user.run("regress", "--program", "bash run.sh 1 2", *how)
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "dsregress: python train.py --n 1\ndsregress: python other.py --n 2\n"
        "dsregress: error: --program: starts 2 programs; give one of these lines\n"
    )
    assert not {"log", "out"} & {file.name for file in user.folder.iterdir()}


def test_a_whole_job_is_measured_and_reported(user: Project) -> None:
    shutil.copytree(SCENARIOS, user.folder / "scenarios")
    user.configure(GOOD, HUNGRY, scenarios="scenarios")
    report = user.regress()
    assert report.code == 1, report.said.err
    found = report.finding(HUNGRY, phase="backward", metric="device_retained_bytes")
    assert found["kind"] == "regression"
    assert "backward" in user.run("report").out
    assert user.run("show", f"*{HUNGRY}*").code == 0
    assert user.run("compare", GOOD, HUNGRY).code == 1
    assert user.run("report", "--html", "site").code == 1
    assert (user.folder / "site" / "index.html").is_file()
    assert user.processes() == []
