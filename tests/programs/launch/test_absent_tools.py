"""A program of the system that the machine lacks is named, and no package for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dsregress.programs.launch.absent_tools import absent_tool


@pytest.mark.parametrize(
    ("said", "tool"),
    [
        ("absent-speak not installed on your system", "absent-speak"),
        ("absent_ffmpeg was not found in PATH", "absent_ffmpeg"),
        ("`absent-sox` executable is not installed on this machine", "absent-sox"),
        ("/bin/sh: 1: absent-tool: command not found", "absent-tool"),
        ("sh not installed on your system", ""),
        ("torch is not installed on your system", ""),
        ("the checkpoint was not found", ""),
        ("flash attention is not installed", ""),
    ],
)
def test_what_an_error_says_is_not_installed_is_named_unless_it_is_there(said: str, tool: str) -> None:
    pytest.importorskip("torch")
    assert absent_tool(RuntimeError(said)) == tool


def test_a_program_that_a_package_starts_by_its_name_is_named_and_no_file_of_the_users() -> None:
    with pytest.raises(FileNotFoundError) as called:
        subprocess.run(["absent-encoder", "-version"], check=False)
    assert absent_tool(called.value) == "absent-encoder"
    with pytest.raises(FileNotFoundError) as opened:
        open("absent-encoder").close()
    assert absent_tool(opened.value) == ""
    code = "import sys; sys.exit('absent-tool: command not found')"
    with pytest.raises(subprocess.CalledProcessError) as ended:
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert absent_tool(ended.value) == "absent-tool"
