"""``regress --then``: a second line that goes on from the files of the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dsregress.cli import options
from dsregress.cli.regress import regress_command
from dsregress.errors import UsageError
from dsregress.wording import workload_words


def test_the_second_line_needs_a_program() -> None:
    words = ["--then", "python train.py --resume"]
    with pytest.raises(UsageError, match="--then: needs --program; it goes on from the files of that program"):
        CliRunner().invoke(regress_command, words, standalone_mode=False, catch_exceptions=False)


def test_the_second_line_starts_in_the_folder_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert options.launch_in(str(tmp_path), "python train.py --resume") == "python train.py --resume"
    with pytest.raises(UsageError, match="--then: starts in "):
        options.launch_in(str(tmp_path / "other"), "python train.py --resume")


def test_the_words_that_stand_for_a_program_are_none() -> None:
    with pytest.raises(
        UsageError, match="--program: stands for your program, and does not name it; write what starts it"
    ):
        CliRunner().invoke(
            regress_command,
            ["--program", workload_words.OPEN_LAUNCH_LINE],
            standalone_mode=False,
            catch_exceptions=False,
        )
