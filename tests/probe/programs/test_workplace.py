"""The run's own copy of a user's folder."""

from __future__ import annotations

from pathlib import Path

from harness.probe import launch_line
from harness.probe.programs import workplace


def test_files_outside_of_the_folder_are_found_and_folders_stay(tmp_path: Path) -> None:
    source = tmp_path / "mine" / "here"
    source.mkdir(parents=True)
    (source.parent / "out").mkdir()
    config = source.parent / "zero3.yaml"
    config.touch()
    line = launch_line.parse(
        "accelerate launch --config_file ../zero3.yaml train.py --ds=../zero3.yaml --out ../out --no ../no"
    )
    read = workplace.beside(line, str(source))
    assert read.options == ("--config_file", str(config))
    assert read.program == "train.py"
    assert read.arguments == (f"--ds={config}", "--out", "../out", "--no", "../no")
