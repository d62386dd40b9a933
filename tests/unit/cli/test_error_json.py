"""Errors where a program asked for JSON."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dsregress.cli import run_command_line
from tests.paths import ROOT

SCHEMA = json.loads((ROOT / "docs" / "schema" / "error.schema.json").read_bytes())


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        run_command_line(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_an_error_is_json_with_the_next_step_where_the_answer_would_be(capfd: pytest.CaptureFixture[str]) -> None:
    code = run("audit", "-r", "absent.txt", "--json", "-")
    said = capfd.readouterr()
    written = json.loads(said.out)
    jsonschema.validate(written, SCHEMA)
    assert written == {
        "schema": 1,
        "error": {
            "what": "cannot be read: No such file or directory",
            "where": "absent.txt",
            "next": "name a requirements file, uv.lock or poetry.lock, or - for stdin",
            "exit_code": 2,
        },
    }
    assert code == 2
    assert said.err.startswith("dsregress: error: absent.txt: cannot be read")


@pytest.mark.parametrize("option", [("--json", "error.json"), ("--json=error.json",)])
def test_a_file_gets_it_too(option: tuple[str, ...]) -> None:
    Path("packages.txt").write_text("numpy==1.26.4\n")
    assert run("audit", "-r", "packages.txt", *option) == 4
    written = json.loads(Path("error.json").read_bytes())
    jsonschema.validate(written, SCHEMA)
    assert written["error"]["where"] == "packages.txt"


def test_what_click_refuses_is_json_too(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("audit", "--no-such-option", "--json", "-") == 2
    written = json.loads(capfd.readouterr().out)
    jsonschema.validate(written, SCHEMA)
    assert "--no-such-option" in written["error"]["what"]


def test_without_json_stdout_stays_empty(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("audit", "-r", "absent.txt") == 2
    assert capfd.readouterr().out == ""
