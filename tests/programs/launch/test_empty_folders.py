"""A program whose data set has no rows is told the folder that it reads, if that is absent or empty."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dsregress.programs.launch import absent_files  # noqa: E402
from dsregress.programs.launch.empty_folders import folder_without_data  # noqa: E402


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder; the working folder is a copy of it."""
    for name in ("user", "copy"):
        (tmp_path / name / "empty").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "user"


class Images(torch.utils.data.Dataset[Any]):
    def __init__(self, root: str) -> None:
        self.save_dir, self.root = "out/none", root
        self.files = sorted(Path(root).glob("*.png"))

    def __len__(self) -> int:
        return len(self.files)


def _sampled(data_path: str) -> Any:
    return torch.utils.data.DataLoader(Images(data_path), shuffle=True)


def _joined(data_path: str) -> Any:
    root = Path(data_path)
    return torch.utils.data.ConcatDataset([Images(str(one)) for one in root.glob("*")])


def _raised(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # each has its own
        call()
    return caught.value


@pytest.mark.parametrize("load", [_sampled, _joined])
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("empty", "there are no files in empty: put its data there"),
        (
            "data/train",
            "there is no data/train where the program is launched: put it there, or launch it in the folder",
        ),
    ],
)
def test_the_folder_is_named(folder: Path, load: Callable[[str], Any], path: str, says: str) -> None:
    error = _raised(lambda: load(path))
    found = folder_without_data(error)
    assert found == path
    assert says in absent_files.without_files(found, error, str(folder))


def test_one_of_several_folders_is_named_and_no_path_that_is_not_used(folder: Path) -> None:
    def listed() -> None:
        model_path, data_path, train_data = "gone", "none", ["data/wiki", "data/cc"]
        raise ValueError(f"but got num_samples=0{'' if model_path and data_path and train_data else 'x'}")

    assert folder_without_data(_raised(listed)) == "data/wiki"


@pytest.mark.parametrize(
    "said", ["No bin files found in empty", "no .pt shards found in 'empty'.", "No files found at empty."]
)
def test_the_folder_is_named_in_which_a_program_says_that_there_are_no_files(folder: Path, said: str) -> None:
    assert folder_without_data(AssertionError(said)) == "empty"
    Path("full").mkdir()
    Path("full", "x.txt").touch()
    assert folder_without_data(AssertionError(said.replace("empty", "full"))) == ""


@pytest.mark.parametrize("use", ["torch.cat(rows)", "max(rows)", "random.sample(rows, 2)", "random.choice(rows)"])
def test_a_list_of_nothing_that_a_program_counts_on_is_of_the_folder_that_it_read(folder: Path, use: str) -> None:
    def count() -> None:
        data_dir, rows = "data/latents", []  # type: ignore[var-annotated]
        eval(use, {"torch": torch, "random": random, "rows": rows})
        raise AssertionError(data_dir)

    assert folder_without_data(_raised(count)) == "data/latents"


def test_datasets_gets_the_files_of_a_folder_that_is_not_there(folder: Path) -> None:
    datasets = pytest.importorskip("datasets")

    def load() -> None:
        dataset_path = "data/alpaca"
        datasets.load_dataset("json", data_files=[str(file) for file in Path(dataset_path).glob("*.json")])

    assert folder_without_data(_raised(load)) == "data/alpaca"


def test_another_failure_names_none(folder: Path) -> None:
    def fail() -> None:
        root = "data/train"
        raise ValueError(f"too few rows: {len(root)}")

    assert folder_without_data(_raised(fail)) == ""


def test_a_data_set_whose_folder_has_files_is_the_programs_own_fault(folder: Path) -> None:
    Path("full").mkdir()
    Path("full", "x.txt").touch()
    assert folder_without_data(_raised(lambda: _sampled("full"))) == ""
