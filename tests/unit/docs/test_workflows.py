"""Workflows call sessions that exist, pin what they use, and may do little."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
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
    "Release": ("id-token: write", "packages: write"),
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
    (options,) = re.findall(r"uses: actions/checkout@.*\n((?: {8,}.*\n)*)", text)
    assert "ref:" not in options.replace("without a ref:", "")  # so it is the default branch of the base repository
    assert "repository:" not in options
    assert "persist-credentials: false" in options
    assert "sparse-checkout: .github/pull_request_comment.py" in options
    assert "pip" not in text
    assert "nox" not in text
    assert "head_sha" not in text
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
        if options and names not in ("tests", "image"):  # whose options are another program's
            check([names, *options.split()])


def test_the_gate_waits_for_every_other_job() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    jobs = set(re.findall(r"^  (\w+):$", text.partition("\njobs:")[2], re.MULTILINE))
    (needs,) = re.findall(r"needs: \[(.*)\]", text)
    assert set(needs.split(", ")) == jobs - {"gate"}


#: The programs that steps call.
PROGRAMS = ("cat", "docker", "gh", "head", "nox", "pip", "python3")


def scripts(text: str) -> list[str]:
    """What the steps of a workflow run."""
    found = []
    for indent, first, rest in re.findall(r"^( *)(?:- )?run: (.*)\n((?: {10,}.*\n|\n)*)", text, re.MULTILINE):
        assert len(indent) < 10
        found.append(textwrap.dedent(rest) if first == "|" else first)
    return found


def built(folder: Path, version: str) -> None:
    """What `nox -s dist` leaves."""
    (folder / "dist").mkdir()
    (folder / "dist" / f"dsregress-{version}.tar.gz").touch()


def run_step(script: str, failing: str, folder: Path, **variables: str) -> int:
    """Run a step as GitHub does where it names no shell, with programs that all succeed but one; its exit code."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    for name in PROGRAMS:
        stub = bin_folder / name
        stub.write_text(f"#!/bin/sh\necho 1\nexit {3 if name == failing else 0}\n")
        stub.chmod(0o755)
    (folder / "step.sh").write_text(script)
    return subprocess.run(
        ["bash", "-e", "step.sh"],
        cwd=folder,
        env={
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            **variables,
        },
        capture_output=True,
        check=False,
    ).returncode


@pytest.mark.parametrize(
    ("script", "program"),
    [
        pytest.param(script, program, id=f"{file.stem} {number} {program}")
        for file in WORKFLOWS
        for number, script in enumerate(scripts(file.read_text(encoding="utf-8")))
        for program in PROGRAMS
        if re.search(rf"(^|[(|;] ?){program} ", script, re.MULTILINE)
    ],
)
def test_a_step_fails_with_any_program_it_calls(script: str, program: str, tmp_path: Path) -> None:
    assert run_step(script, program, tmp_path) != 0


def test_a_step_whose_programs_succeed_succeeds(tmp_path: Path, text: str) -> None:
    for number, script in enumerate(scripts(text)):
        (folder := tmp_path / str(number)).mkdir()
        built(folder, "0.1.0")
        assert run_step(script, "", folder, RESULTS="success success", GITHUB_REF_NAME="v0.1.0") == 0, script


@pytest.mark.parametrize("result", ["failure", "cancelled", "skipped"])
def test_the_gate_is_shut_by_any_job_that_did_not_succeed(result: str, tmp_path: Path) -> None:
    (gate,) = scripts((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8").partition("  gate:")[2])
    assert run_step(gate, "", tmp_path, RESULTS=f"success {result}") == 1


RELEASE = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("tag", ["v0.1", "v0.1.1", "v", "v0.1.0rc1"])
def test_a_tag_of_another_version_than_the_one_built_publishes_nothing(tag: str, tmp_path: Path) -> None:
    (check_tag,) = [script for script in scripts(RELEASE) if script.startswith("test -e")]
    built(tmp_path, "0.1.0")
    assert run_step(check_tag, "", tmp_path, GITHUB_REF_NAME=tag) == 1


def test_what_may_publish_runs_nothing_of_the_project_and_waits_for_its_tests() -> None:
    before, _, after = RELEASE.partition("\n  publish:\n")
    publish, _, image = after.partition("\n  image:\n")
    assert "write" not in before
    assert scripts(publish) == []
    assert [action.partition("@")[0] for action in re.findall(r"uses: (.*)", publish)] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    assert re.findall(r"uses: ([\w/-]*)", image) == ["actions/download-artifact"]
    assert not re.search(r"docker (?:run|build)|nox|pip|python", image)
    assert ["needs: build" in publish, "needs: publish" in image] == [True, True]
    assert "needs: ci" in before
    assert "uses: ./.github/workflows/ci.yml " in before
