"""A file of the program's own that is not here is named; one of a package's, or of the run's, is not."""

from __future__ import annotations

import errno
import os
import subprocess
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsregress.programs.launch.absent_files import absent_file

_HERE = "where the program is launched: put it there, or launch it in the folder that has it"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The user's folder, of which the working folder is a copy."""
    for name in ("user", "copy"):
        (tmp_path / name / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "copy")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return str(tmp_path / "user")


def _raised(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # each has its own
        call()
    return caught.value


def _refuse(words: str, kind: type[Exception] = ValueError) -> Exception:
    def refuse() -> None:
        raise kind(words)

    return _raised(refuse)


def _assert_that_exists(name: str) -> Exception:
    def check() -> None:
        config = types.SimpleNamespace(statistics=Path(name))
        assert os.path.exists(config.statistics)

    return _raised(check)


def _refuse_file(name: str, advice: str) -> Exception:
    """As a program does that says how to get what it misses."""

    def refuse() -> None:
        raise FileNotFoundError(errno.ENOENT, advice, name)

    return _raised(refuse)


def _worker_error() -> Exception:
    lost = _raised(Path("data/x.bin").read_bytes)
    said = f'Caught FileNotFoundError in DataLoader worker process 0.\nOriginal Traceback:\n  File "{__file__}"\n{lost}'
    return _refuse(said, FileNotFoundError)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (lambda: _raised(Path("data/x.json").read_bytes), f"there is no data/x.json {_HERE}"),
        (
            lambda: _raised(Path("$replace_this_with_your_logs/run.yaml").read_bytes),
            "'$replace_this_with_your_logs' stands for a path of yours: write it into the line or the settings that have it",
        ),
        (lambda: _raised(lambda: os.listdir("images")), f"there is no images {_HERE}"),
        (
            lambda: _raised(lambda: Path("logs/a/run.yaml").write_text("")),
            "there is no logs/a where the program is launched: make it, as the program writes run.yaml there",
        ),
        (
            lambda: _refuse_file("checkout", "git clone https://example.org/checkout"),
            "there is no checkout where the program is launched: git clone https://example.org/checkout",
        ),
        (
            lambda: _raised(Path("/nowhere/x.bin").read_bytes),
            "there is no /nowhere/x.bin on this machine: put it there",
        ),
        (
            lambda: _refuse("No such file or directory: out/model.safetensors", FileNotFoundError),
            "there is no out/model",
        ),
        (lambda: _assert_that_exists("data/x.npz"), f"there is no data/x.npz {_HERE}"),
        (_worker_error, f"there is no data/x.bin {_HERE}"),
        (
            lambda: _refuse("Expected a path to an existing config. Received: ds/zero.json"),
            f"there is no ds/zero.json {_HERE}",
        ),
        (lambda: _refuse("Can't find 'adapter_config.json' at 'out/lora'"), f"there is no out/lora {_HERE}"),
        (lambda: _refuse("data folder data/train does not exist"), f"there is no data/train {_HERE}"),
        (
            lambda: _raised(Path("qwen/Qwen2.5-7B/model.safetensors").read_bytes),
            "there is no qwen/Qwen2.5-7B where the program is launched: give --synthetic-data for the shapes of "
            "Qwen/Qwen2.5-7B",
        ),
        (
            lambda: _raised(Path("Qwen2.5-3B-Instruct/tokenizer_config.json").read_bytes),
            "there is no Qwen2.5-3B-Instruct where the program is launched: give --synthetic-data for the shapes of "
            "Qwen/Qwen2.5-3B-Instruct",
        ),
        (lambda: _raised(Path("gpt2/log.json").read_bytes), f"there is no gpt2/log.json {_HERE}"),
        (
            lambda: _raised(Path(os.path.expanduser("~/x.json")).read_bytes),
            "there is no ~/x.json, as a program's home is empty here: give the file by its whole path",
        ),
    ],
)
def test_a_file_of_the_programs_is_named(source: str, error: Callable[[], Exception], says: str) -> None:
    found = absent_file(error(), ["--data=data/train", "--out", "out/lora"], source, Path("..").resolve())
    assert found is not None
    place, _, said = found.line.partition(": ")
    assert place.startswith("test_absent_files.py:")
    assert said.startswith(says)


@pytest.mark.parametrize(
    "error",
    [
        lambda: _raised(Path(os.path.join(os.path.dirname(os.__file__), "absent.json")).read_bytes),
        lambda: _raised(Path("/proc/absent").read_bytes),
        lambda: _raised(lambda: subprocess.run(["absent/nvcc"])),
        lambda: _raised(Path("out/checkpoint.pt").read_bytes),  # in a folder that the run made
        lambda: _refuse("weights of 'encoder/layer' not found"),
        lambda: _refuse("cannot write data/train"),
        lambda: _refuse("no such option"),
        lambda: KeyError("data/train"),
    ],
)
def test_what_is_a_releases_is_none_of_the_programs(source: str, error: Callable[[], Exception]) -> None:
    Path("out").mkdir()
    assert absent_file(error(), ["--data=data/train"], source, Path()) is None


def test_a_file_that_is_here_is_not_absent(source: str) -> None:
    Path("data/x.json").write_text("")
    assert absent_file(_refuse("data/x.json: not a folder", FileNotFoundError), ["data/x.json"], source, Path()) is None


def test_missing_files_that_the_line_names_to_be_read_are_said_at_once_as_far_as_there_is_room(source: str) -> None:
    Path("data/there.json").touch()
    arguments = [
        *("--train", "data/x.json", "--dev=data/dev.json", "--other", "data/there.json", f"--long={'l' * 250}.json"),
        *("--output_file", "out.json", "--resume=last.pt", "--hub", "https://example.org/x.json", "train.yaml"),
    ]
    found = absent_file(_raised(Path("data/x.json").read_bytes), arguments, source, Path("..").resolve())
    assert found is not None
    said = "there is no data/x.json or data/dev.json where the program is launched: put them there"
    assert found.line.partition(": ")[2] == said
