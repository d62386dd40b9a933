"""How far beyond the folder of its launch line a program reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.probe import launch_line
from dsregress.probe.program import sources_sha256
from dsregress.probe.surrounding_folder import surrounding_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = tmp_path / "home" / "a" / "b" / "c"
    (made / "src").mkdir(parents=True)
    return made


@pytest.mark.parametrize(
    ("line", "levels"),
    [
        ("sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), os.path.pardir)))", 1),
        ("open('../data/train.json')", 1),
        ('parser.add_argument("--save_dir", default="../../out")', 2),
        ("ROOT = Path(__file__).resolve().parent.parent", 1),
        ("ROOT = Path(__file__).parents[1]", 1),
        ("sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))", 1),
        ("HERE = Path(__file__).parent", 0),
        ("from .. import tools", 0),
        ("print('wait...')", 0),
        ("# open('../data/train.json')", 0),
    ],
)
def test_it_follows_from_the_text_of_the_files(folder: Path, line: str, levels: int) -> None:
    (folder / "train.py").write_text(f"import os\n{line}\n")
    assert surrounding_folder(folder, [folder / "train.py"]) == [folder, *folder.parents][levels]


def test_what_a_file_deeper_down_reaches_may_be_in_the_folder(folder: Path) -> None:
    (folder / "src" / "train.py").write_text("open('../data')")
    assert surrounding_folder(folder, [folder / "src" / "train.py"]) == folder


@pytest.mark.parametrize(
    ("line", "levels"), [("file: ../x.json", 1), ("a: {b: '../../x'}", 2), ("# file: ../x", 0), ("title: wait ../", 0)]
)
def test_files_of_settings_count_from_the_folder_of_the_line(folder: Path, line: str, levels: int) -> None:
    (folder / "src" / "zero3.yaml").write_text(f"x: 1\n{line}\n")
    assert surrounding_folder(folder, [folder / "src" / "zero3.yaml"]) == [folder, *folder.parents][levels]


def test_it_goes_neither_beyond_a_repository_nor_to_the_home_of_a_user(folder: Path) -> None:
    (folder / "train.py").write_text("open('../../../../x')")
    assert surrounding_folder(folder, [folder / "train.py"]) == folder.parents[1]
    (folder.parent / ".git").mkdir()
    assert surrounding_folder(folder, [folder / "train.py"]) == folder.parent
    (folder / ".git").mkdir()
    assert surrounding_folder(folder, [folder / "train.py"]) == folder


def test_changed_code_beside_the_folder_is_measured_again(folder: Path) -> None:
    line = launch_line.parse("python train.py")
    (folder / "train.py").write_text("sys.path.append('..')")
    (folder.parent / "tools.py").write_text("x = 1")
    before = sources_sha256(line, folder)
    (folder.parent / "tools.py").write_text("x = 2")
    assert sources_sha256(line, folder) != before


def test_changed_code_on_its_path_is_measured_again(folder: Path) -> None:
    line = launch_line.parse("PYTHONPATH=.. python train.py")
    (folder / "train.py").write_text("import tools")
    (folder.parent / "tools.py").write_text("x = 1")
    before = sources_sha256(line, folder)
    (folder.parent / "tools.py").write_text("x = 2")
    assert sources_sha256(line, folder) != before
