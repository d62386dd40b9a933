"""Output that cannot be written ends nothing, and is never silently a pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dsregress.model import Failed, Result
from dsregress.store import Store
from tests.builders.synthetic import stored_result
from tests.paths import SOURCE

FULL = "dsregress: error: stdout: cannot be written: No space left on device; "


def of(version: str, **fields: object) -> Result:
    one = stored_result(**fields)  # type: ignore[arg-type]
    stack = msgspec.structs.replace(one.cell.stack, versions={"deepspeed": version})
    return msgspec.structs.replace(one, cell=msgspec.structs.replace(one.cell, stack=stack))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project in which 0.16.4 is worse than the baseline: `report` ends with exit code 1."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.dsregress]\nbaseline = "0.15.0"\n[tool.dsregress.stack]\ndeepspeed = ["0.15.0", "0.16.4"]\n'
    )
    store = Store(str(tmp_path / "results"))
    store.write(of("0.15.0"))
    store.write(of("0.16.4", outcome=Failed(stage="backward", signature="RuntimeError: " + "no " * 50)))
    return tmp_path


def shell(folder: Path, script: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a bash script in which ``$DS`` is the command."""
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script}"],
        cwd=folder,
        env={**os.environ, "DS": f"{sys.executable} -m dsregress", "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("script", "code", "error"),
    [
        # Its reader takes what it wants and leaves: the verdict stays, and there is nothing to say.
        ("$DS report --json - --markdown a.md | head -c 10 > head; r=$?; test -s a.md || exit 99; exit $r", 1, ""),
        ("$DS report | true", 1, ""),
        ("$DS show | true", 0, ""),
        ("$DS report 2>&1 > report.txt | true", 1, ""),
        # The disk is full: no report, so no verdict.
        ("$DS report > /dev/full", 3, FULL),
        ("$DS report --json - > /dev/full", 3, FULL),
        ("$DS show > /dev/full", 3, FULL),
        ("$DS --help > /dev/full", 3, FULL),
        ("$DS show none > /dev/full", 4, "no stored cell matches none"),
        # Nowhere to say it: the exit code is right all the same.
        ("$DS report > /dev/full 2>&1", 3, ""),
        ("$DS report > report.txt 2> /dev/full", 1, ""),
        ("$DS report > report.txt 2>&-", 1, ""),
        ("$DS nonsense 2>&-", 2, ""),
        ("$DS report >&-", 3, "dsregress: error: stdout: cannot be written: Bad file descriptor; "),
        # Files that are opened get none of the closed descriptors, so nothing is printed into them.
        ("$DS report --json a --markdown - <&- >&- 2>&-; r=$?; python3 -m json.tool a b || exit 99; exit $r", 3, ""),
        # What bash makes of --json >(...), and a pipe with a name, which no file may replace.
        ("$DS report --json >(cat > a) > out; r=$?; sleep 0.5; test -s a || exit 99; exit $r", 1, ""),
        ("mkfifo p; cat p > a & $DS report --json p > out; r=$?; wait; test -s a -a -p p || exit 99; exit $r", 1, ""),
        ("ln -s a link; $DS report --json link > out; r=$?; test -s a -a -L link || exit 99; exit $r", 1, ""),
        # A file that cannot be written costs no other, and not the report.
        ("$DS report --json no/a --markdown a > b; r=$?; test -s a -a -s b || exit 99; exit $r", 3, "no/a: cannot be"),
        ("$DS report --html p/site --json a > b; r=$?; test -s a -a -s b || exit 99; exit $r", 1, "site: p/site"),
        ("touch p; $DS report --html p --json a > b; r=$?; test -s a -a -s b || exit 99; exit $r", 3, "p: cannot be"),
    ],
)  # fmt: skip
def test_the_exit_code_is_what_was_measured_unless_the_report_is_lost(
    folder: Path, script: str, code: int, error: str
) -> None:
    ended, out, said = shell(folder, script)
    assert (ended, out) == (code, ""), said
    assert error in said
    assert said.count("\n") == bool(error)
