"""An advisory by its id: all that is known of it, without any results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dsregress.advisories.advisory import Advisory
from dsregress.advisories.shipped import read_advisories
from dsregress.cli import cli
from dsregress.errors import UsageError
from dsregress.report.answers.advisory_answer import advisory_text


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def say(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words), standalone_mode=False)


def test_an_advisory_is_shown_by_its_id_in_any_folder() -> None:
    lines = say("show", "dsr-2026-0020").stdout.splitlines()
    assert lines[0] == (
        "DSR-2026-0020 out of memory (fault): Gathered parameters stay after backward, with non-reentrant checkpointing "
        "under ZeRO-3"
    )
    assert "  releases: deepspeed 0.16.0 until 0.16.8, as far as they were run" in lines
    assert "  it needs: ZeRO stage 3; several ranks; non-reentrant checkpointing" in lines
    assert "  introduced by: https://github.com/deepspeedai/DeepSpeed/pull/6726" in lines
    assert lines[-1] == "  Does it concern your job? dsregress audit -r requirements.txt --config ds.json"


def test_its_json_is_the_record_of_osv() -> None:
    (record,) = json.loads(say("show", "DSR-2026-0020", "--json", "-").stdout)["advisories"]
    assert record["id"] == "x_DSR-2026-0020"
    assert record["affected"][0]["package"]["name"] == "deepspeed"


@pytest.mark.parametrize("one", read_advisories(), ids=lambda one: str(one.id))
def test_every_advisory_has_its_releases_and_a_remedy_or_none(one: Advisory) -> None:
    text = advisory_text(one)
    assert "\n  releases: " in text
    assert "\n  remedy: " in text


@pytest.mark.parametrize("command", ["explain", "reproduce", "diagnose"])
def test_commands_that_take_no_advisory_name_the_one_that_does(command: str) -> None:
    error = say(command, "DSR-2026-0020").exception
    assert isinstance(error, UsageError)
    assert error.hint == "`dsregress show DSR-2026-0020` prints it"


def test_an_id_that_none_has_is_an_error_with_the_near_ones() -> None:
    error = say("show", "DSR-2026-9999").exception
    assert isinstance(error, UsageError)
    assert error.what == "no such advisory: DSR-2026-9999"
