"""A launch line finds what it finds in the shell where it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.config.search_path import with_search_path


@pytest.mark.parametrize(
    ("given", "line", "read"),
    [
        ("src", "torchrun train.py", "PYTHONPATH=src torchrun train.py"),
        ("src:", "torchrun train.py", "PYTHONPATH=src:. torchrun train.py"),
        ("", "torchrun train.py", "torchrun train.py"),
        ("/opt/elsewhere:absent", "torchrun train.py", "torchrun train.py"),
        ("src", "PYTHONPATH=lib torchrun train.py", "PYTHONPATH=lib torchrun train.py"),
        ("src", "PYTHONPATH=lib:$PYTHONPATH torchrun train.py", "PYTHONPATH=lib:src torchrun train.py"),
        ("", "PYTHONPATH=src:${PYTHONPATH} torchrun train.py", "PYTHONPATH=src: torchrun train.py"),
        ("src", "PYTHONPATH='$PYTHONPATH' torchrun train.py", "PYTHONPATH='$PYTHONPATH' torchrun train.py"),
    ],
)
def test_the_folders_of_the_shell_that_are_the_programs_own_are_in_the_line(
    tmp_path: Path, given: str, line: str, read: str
) -> None:
    for name in ("src", "lib"):
        (tmp_path / name).mkdir()
    assert with_search_path(line, tmp_path, {"PYTHONPATH": given}) == read


def test_a_full_path_into_the_folder_is_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "my code").mkdir()
    environ = {"PYTHONPATH": f"{tmp_path}:{tmp_path}/my code"}
    assert with_search_path("train.py", tmp_path, environ) == "PYTHONPATH='.:my code' train.py"
