"""Workflows call sessions that exist, pin what they use, and may do little."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.unit.docs.commands import check, sessions

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


#: Workflow -> what it may do besides reading the code.
MAY_WRITE = {
    "Regress": ("pages: write", "id-token: write"),
    "Nightly": ("pages: write", "id-token: write"),
    "Comment": ("actions: read", "pull-requests: write"),
}


@pytest.fixture(params=WORKFLOWS, ids=lambda file: file.name)
def text(request: pytest.FixtureRequest) -> str:
    file: Path = request.param
    return file.read_text(encoding="utf-8")


def test_actions_are_pinned_by_commit_and_say_which_release_that_is(text: str) -> None:
    used = [action for action in re.findall(r"uses: (.*)", text) if not action.startswith("./")]
    for action in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_nothing_is_permitted_but_reading(text: str) -> None:
    assert re.search(r"^permissions: \{\}$", text, re.MULTILINE)
    granted = set(re.findall(r"^ +(\w[\w-]*: (?:write|read|none))$", text, re.MULTILINE))
    assert granted <= {"contents: read", *MAY_WRITE.get(re.findall(r"^name: (.*)$", text, re.MULTILINE)[0], ())}


def test_what_may_write_to_a_pull_request_runs_nothing_of_its_author() -> None:
    text = (ROOT / ".github" / "workflows" / "comment.yml").read_text(encoding="utf-8")
    assert "checkout" not in text
    assert "pip" not in text
    assert "nox" not in text
    for line in re.findall(r"^ +(?:- )?run:.*(?:\n {10,}.*)*", text, re.MULTILINE):
        assert "${{" not in line  # a branch's name is text in a variable, never part of a script


def test_every_job_has_a_time_limit(text: str) -> None:
    assert text.count("runs-on:") == text.count("timeout-minutes:")


def test_sessions_and_options_exist(text: str) -> None:
    for line in re.findall(r"nox -s (\S.*)", text):
        command = re.sub(r"\$\{\w+:\+(--\w+) \"\$\w+\"\}", r"\1 VALUE", line).split(" |")[0].replace('"', "")
        names, _, options = command.partition(" -- ")
        if names == "$SESSION":
            names = " ".join(re.findall(r"session: \[(.*)\]", text)[0].split(", "))
        assert set(names.split()) <= sessions()
        if options and names != "tests":
            check([names, *options.split()])


def test_the_gate_waits_for_every_other_job() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    jobs = set(re.findall(r"^  (\w+):$", text.partition("\njobs:")[2], re.MULTILINE))
    (needs,) = re.findall(r"needs: \[(.*)\]", text)
    assert set(needs.split(", ")) == jobs - {"gate"}
