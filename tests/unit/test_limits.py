"""A test that hangs fails at its limit, with the stacks of all threads, and costs no other test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ending
from tests.paths import ROOT, SOURCE

HANGING = """
import threading, time

import pytest

def test_before():
    pass

@pytest.mark.timeout(1)
def test_hanging():
    threading.Thread(target=threading.Event().wait, name="helper-thread", daemon=True).start()
    threading.Event().wait()

@pytest.fixture
def hanging():
    yield
    time.sleep(300)

@pytest.mark.timeout(1)
def test_hanging_at_its_end_too(hanging):
    threading.Event().wait()

def test_after():
    pass
"""


@pytest.mark.slow
def test_a_test_that_hangs_fails_with_the_stacks_of_all_threads_and_the_next_runs(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests import conftest\n\nconftest.ENDING_S = 1.0\n")
    (tmp_path / "test_it.py").write_text(HANGING)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-n",
        "1",
        "-v",
        "-c",
        "/dev/null",
        "--rootdir",
        ".",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}{os.pathsep}{SOURCE}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    printed = done.stdout + done.stderr
    assert re.search(r"FAILED.* test_it.py::test_hanging\b", printed), printed
    assert re.search(r"FAILED.* test_it.py::test_hanging_at_its_end_too\b", printed), printed
    assert "Failed: Timeout (>1.0s)" in printed
    assert "Stack of helper-thread" in printed
    assert "Timeout (0:00:01)!" in printed  # the end of the process, which says where it hung
    assert re.search(r"test_it.py\", line \d+ in hanging", printed)
    assert re.search(r"PASSED.* test_it.py::test_after\b", printed), printed
    assert done.returncode == 1


@pytest.mark.slow
def test_a_command_at_its_limit_takes_along_what_it_has_started(tmp_path: Path) -> None:
    script = "echo begun; sleep 300 & wait"  # both hold the pipes
    with pytest.raises(AssertionError, match=r"did not end in 1 s:\nbegun"):
        ending.run(["sh", "-c", script], cwd=tmp_path, env=os.environ, limit_s=1)
