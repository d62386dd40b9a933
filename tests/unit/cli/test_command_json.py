"""`--json` of the commands that list or do something: one shape, by its schema, and nothing else on stdout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from dsregress.cli import COMMANDS, cli, run_command_line
from dsregress.store import Store
from tests.builders.synthetic import result
from tests.paths import ROOT

SCHEMA = json.loads((ROOT / "docs" / "schema" / "commands.schema.json").read_bytes())


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def answer(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """What a command writes to stdout, and nothing else."""
    with pytest.raises(SystemExit) as ended:
        run_command_line((*arguments, "--json", "-"))
    said = capfd.readouterr()
    assert ended.value.code == code, said.err
    written: dict[str, Any] = json.loads(said.out)
    if code == 0:
        jsonschema.validate(written, SCHEMA)
        assert written["command"] == arguments[0]
    return written


def test_every_command_but_the_one_that_git_calls_has_json() -> None:
    assert isinstance(cli, click.Group)
    lacking = []
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        if not any("--json" in option.opts for option in command.params):
            lacking.append(name)
    assert lacking == ["bisect-step"]


def test_init_says_what_it_found_and_wrote(capfd: pytest.CaptureFixture[str]) -> None:
    Path("README.md").write_text("deepspeed --num_gpus 2 train.py\ndeepspeed train.py\n")
    Path("train.py").write_text("import deepspeed\n")
    Path("requirements.txt").write_text("deepspeed==0.16.8\ntorch==2.9.1\n")
    would = answer(capfd, "init", "--dry-run")
    assert not Path("dsregress.toml").exists()
    written = answer(capfd, "init")
    assert written == {**would, "dry_run": False}
    assert written["job"]["program"] == "deepspeed --num_gpus 2 train.py"
    assert written["job"]["packages"] == ["requirements.txt"]
    assert written["others"] == [{"file": "README.md", "line": "deepspeed train.py"}]
    assert {one["file"]: one["text"] for one in written["files"]}["dsregress.toml"] == Path(
        "dsregress.toml"
    ).read_text()
    assert written["next"] == ["dsregress audit", "dsregress regress"]
    again = answer(capfd, "init")
    assert (again["files"], len(again["kept"])) == ([], 2)


def test_init_without_a_program_is_an_error_with_the_next_step(capfd: pytest.CaptureFixture[str]) -> None:
    written = answer(capfd, "init", code=4)
    assert written["error"]["next"] == "give it with --program 'LINE'"


def test_scenarios_are_listed_with_their_variants(capfd: pytest.CaptureFixture[str]) -> None:
    (one,) = answer(capfd, "scenarios", "llama3_70b_zero3")["scenarios"]
    assert one["name"] == "llama3_70b_zero3"
    assert "gradient_checkpointing=non_reentrant" in one["variants"]
    assert one["remedies"]


def test_stored_cells_are_shown_by_phase_and_bundled(capfd: pytest.CaptureFixture[str]) -> None:
    stored = result("0.16.4")
    Store("results").write(stored)
    (cell,) = answer(capfd, "show")["cells"]
    assert (cell["id"], cell["outcome"]) == (stored.cell.id, "passed")
    assert stored.record is not None
    expected = max(rank.phases["backward"].device_peak_bytes for rank in stored.record.ranks)
    assert cell["phases"]["backward"]["device_peak_bytes"] == expected
    packed = answer(capfd, "bundle", "results", "--output", "all.jsonl.gz")
    assert packed["size_bytes"] == Path("all.jsonl.gz").stat().st_size
    assert sum(packed["lines"].values()) >= 1
    assert answer(capfd, "bundle", "--unpack", "all.jsonl.gz", "--output", "again")["written"] >= 1


def test_a_clean_folder_has_nothing_to_remove(capfd: pytest.CaptureFixture[str]) -> None:
    assert answer(capfd, "clean", "--limit", "1GB")["removed"] == []
    Path(".dsregress/envs").mkdir(parents=True)
    assert answer(capfd, "clean", "--limit", "0.5GiB", "--dry-run") == {
        "schema": 1,
        "command": "clean",
        "folder": str(Path(".dsregress").resolve()),
        "dry_run": True,
        "removed": [],
        "freed_bytes": 0,
    }


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--limit", "5"), "'5' is not a size: write e.g. 500MB, 5GB or 5GiB"),
        (("--limit", "5GB", "--all"), "is about environments that stay"),
        (("--limit", "5GB", "--images"), "is about environments that stay"),
    ],
)
def test_a_limit_is_a_size_and_stands_alone(
    capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], error: str
) -> None:
    assert error in answer(capfd, "clean", *arguments, code=2)["error"]["what"]
