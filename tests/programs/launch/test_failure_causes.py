"""What a program lacks is told by the remedy that helps."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("torch")

from dsregress.probe.border import faults
from dsregress.programs.launch import absent_packages
from dsregress.programs.launch.failure_causes import LaunchedProgram, environment_failure, lacks_packages
from dsregress.programs.substitutes.synthetic_datasets import MadeUp
from dsregress.programs.world.local_sockets import NoNetworkError
from dsregress.programs.world.resource_errors import NotHere
from tests.programs.cells import ran


class _Start:
    has_rank = True


class _Program:
    start = _Start()
    run_folder = Path("/nowhere")
    is_tiny = False
    name = "train.py"


def _refuse() -> None:
    try:
        raise NoNetworkError("data.example.com")
    except NoNetworkError as error:
        raise NotHere("the data set CIFAR10 is not in data", "give --synthetic-data") from error


def test_a_data_set_that_a_download_would_have_is_told_by_its_own_remedy() -> None:
    with pytest.raises(NotHere) as raised:
        _refuse()
    program = cast(LaunchedProgram, _Program())
    assert environment_failure(raised.value, program, 0, 0) is raised.value


@pytest.mark.parametrize(
    "said",
    [
        "You requested gpu: [0, 1, 2]\n But your machine only has: [0]",
        "You requested GPUs: [0, 1, 2]\n But your machine only has: [0]",
        "Requested 3 processes, but only 1 GPUs are available.",
        "request 3 GPUs while there is 1 GPU",
    ],
)
def test_a_program_that_starts_its_own_ranks_is_told_their_number(said: str) -> None:
    refused = environment_failure(ValueError(said), cast(LaunchedProgram, _Program()), 0, 0)
    assert str(refused) == "train.py starts 3 ranks, on as many GPUs: give --ranks 3"


@pytest.mark.parametrize(("devices", "first"), [("1", "0"), ("2, 3", "0 to 1")])
def test_a_program_that_asks_for_a_later_gpu_is_told_to_take_the_first(devices: str, first: str) -> None:
    said = f"You requested GPUs: [{devices}]\n But your machine only has: [0]"
    refused = environment_failure(ValueError(said), cast(LaunchedProgram, _Program()), 0, 0)
    assert str(refused) == f"train.py asks for GPU {devices}, and they begin with 0: let it ask for {first}"


def test_a_program_of_the_system_is_told_to_be_installed_and_no_release_is_blamed() -> None:
    said = "absent-speak not installed on your system"
    refused = environment_failure(RuntimeError(said), cast(LaunchedProgram, _Program()), 0, 0)
    assert str(refused) == (
        "an unknown place: needs the program absent-speak, which this machine lacks: install it as a package of the system's"
    )


def test_a_refusal_that_a_program_catches_is_told_when_it_fails_without_having_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NotHere, "said", [])
    monkeypatch.setattr(_Program, "line", types.SimpleNamespace(arguments=()), raising=False)
    monkeypatch.setattr(_Program, "source", ".", raising=False)
    monkeypatch.setattr(_Program, "made_up", MadeUp(), raising=False)
    program = cast(LaunchedProgram, _Program())
    with pytest.raises(ValueError, match="no valid") as failed:
        raise ValueError("no valid data sets were loaded")
    assert environment_failure(failed.value, program, 0, 0) is None  # nothing was refused
    with pytest.raises(NotHere):
        _refuse()
    refused = environment_failure(failed.value, program, 0, 0)
    assert str(refused).endswith(": the data set CIFAR10 is not in data: give --synthetic-data")
    assert environment_failure(failed.value, program, 1, 1) is None  # it trained all the same
    with pytest.raises(json.JSONDecodeError) as of_a_library:
        json.loads("{")
    assert environment_failure(of_a_library.value, program, 0, 0) is None


class LocalTokenNotFoundError(Exception):
    """As huggingface_hub's."""


def test_a_program_that_needs_a_login_is_told_what_to_leave_out() -> None:
    refused = environment_failure(LocalTokenNotFoundError(), cast(LaunchedProgram, _Program()), 0, 0)
    assert str(refused) == (
        "train.py asks the hub who its user is, and a run has no network: leave out the option that does, e.g. --push_to_hub"
    )


def test_of_many_packages_as_many_are_named_as_fit_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"package-number-{number}" for number in range(30)]
    monkeypatch.setattr(absent_packages, "packages_asked_for", lambda error: names)
    refused = lacks_packages("run `pip install app[all]`")
    assert refused is not None
    first, second = str(refused).split("\n")
    named = re.findall(r"--with (\S+)", first)
    assert 3 < len(named) < 30
    assert named == names[: len(named)]
    assert len(f"CannotRun: {first}") <= faults.INSTRUCTION_LENGTH
    assert second == "All 30: give " + " ".join(f"--with {name}" for name in names)


@pytest.mark.usefixtures("surroundings")
def test_code_of_its_own_that_this_python_cannot_read_is_no_releases(folder: Path) -> None:
    (folder / "io_utils.py").write_text("import torch\n\nasync = 1\n")
    (folder / "train.py").write_text("import io_utils\n")
    record = ran(folder, "sim", 1, "python train.py")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert record.signature == (
        f'CannotRun: io_utils.py:3: Python {version} cannot read it (invalid syntax): the setting `python = "X.Y"` takes '
        "another one"
    )


DOWNLOADS = """
import os
from urllib.request import urlopen
def load():
    path, url = "data/play.txt", "https://data.example.com/a/play.txt"
    if not os.path.exists(path):
        urlopen(url)
    return open(path).read()
load()
"""


@pytest.mark.usefixtures("surroundings")
def test_the_file_of_a_download_is_named_and_made_up(folder: Path) -> None:
    (folder / "train.py").write_text(DOWNLOADS)
    assert ran(folder, "sim", 1, "python train.py").signature == (
        "CannotRun: train.py:7: there is no data/play.txt where the program is launched: give --synthetic-data for made-up "
        "rows, or put it there"
    )
    (folder / "train.py").write_text(DOWNLOADS.replace('"data/play.txt"', '"data/of_a_play"'))
    assert ran(folder, "sim", 1, "python train.py").signature == (
        "CannotRun: train.py:7: downloads https://data.example.com/a/play.txt, and a run has no network: put it where it "
        "looks first"
    )
    (folder / "train.py").write_text(DOWNLOADS + "print(len(load()), 'characters')\n")
    record = ran(folder, "sim", 1, "python train.py", synthetic_data=True)
    assert "train.py ended without an optimizer step" in str(record.signature)


@pytest.mark.usefixtures("surroundings")
def test_a_module_of_the_project_is_not_taken_for_a_package_of_its_name(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / "environments" / "wordle").mkdir(parents=True)
    (folder / "environments" / "wordle" / "wordle.py").touch()
    (folder / "train.py").write_text(
        "import importlib\n"
        "try:\n    importlib.import_module('wordle')\n"
        "except ImportError as error:\n    raise ValueError('Could not import wordle. Is it installed?') from error\n"
    )
    record = ran(folder, "sim", 1, "python train.py")
    assert record.signature == (
        "CannotRun: train.py imports 'wordle' of its project's environments/wordle: write PYTHONPATH=environments/wordle "
        "before the line"
    )
