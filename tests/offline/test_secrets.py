"""What a release can find of the caller's secrets without looking for them anywhere but among its own ancestors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.offline.project import GOOD, Project
from tests.packages import build

SEARCHING = "6.5.0"

#: At the end of a release: it fails where it finds a secret in its own environment, or in that of a process above it.
LOOKING = """
import os

def _above(pid):
    while pid > 1:
        yield pid
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])

for _pid in _above(os.getpid()):
    try:
        _read = open(f"/proc/{_pid}/environ", "rb").read()
    except OSError:
        continue
    if b"sesame" in _read:
        raise RuntimeError("found a secret of " + open(f"/proc/{_pid}/comm").read())
if os.environ.get("HOME") == "THEIRS" or os.listdir(os.environ["HOME"]):
    raise RuntimeError("found the user's home")
"""


@pytest.fixture(autouse=True)
def releases(shared: Project) -> None:
    build.build(shared.folder / "index", SEARCHING, more=LOOKING.replace("THEIRS", str(shared.folder)))


def test_a_release_finds_no_secret_of_its_caller(project: Project) -> None:
    project.configure(GOOD, SEARCHING)
    secrets = {
        "HF_TOKEN": "sesame",
        "https_proxy": "http://user:sesame@proxy.example",
        "UV_INDEX_URL": "https://user:sesame@index.example/simple",
    }
    report = project.regress(**secrets)
    assert (report.cell(SEARCHING)["outcome"], report.code) == ("passed", 0), report.said.err


def test_that_release_finds_one_that_is_there(tmp_path: Path) -> None:
    """Else the test above could not fail."""
    looking = subprocess.run(
        [sys.executable, "-c", LOOKING],
        env={"HF_TOKEN": "sesame", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert "found a secret of python" in looking.stderr
