"""A package that no stack is configured with, added on the command line: in every stack, or as the axis."""

from __future__ import annotations

import json
import re

import pytest

from tests.offline.project import GOOD, PYTHON, Project, stored

LATER = "2.0.0"  #: another good release of the framework


@pytest.fixture
def project(project: Project) -> Project:
    project.configure(GOOD, LATER)
    return project


def stack(version: str, trainer: str) -> str:
    return f"py{PYTHON}-tinyframe{version}-tinytrainer{trainer}"


def test_it_can_be_the_axis(project: Project) -> None:
    report = project.regress("--with", "tinytrainer=1.1.0,1.2.0")
    assert report.code == 1
    assert report.json["baseline"] == stack(LATER, "1.1.0")
    assert [(one["id"], one["name"]) for one in report.json["stacks"]] == [
        (stack(LATER, "1.1.0"), "1.1.0"),
        (stack(LATER, "1.2.0"), "1.2.0"),
    ]
    held = [found for found in report.json["findings"] if found["metric"] == "device_retained_bytes"]
    assert [found["stack"] for found in held] == [stack(LATER, "1.2.0")]
    assert {result["installed"]["tinytrainer"] for result in stored(project)} == {"1.1.0", "1.2.0"}
    compared = project.run("compare", "tinytrainer==1.1.0", "1.2.0")
    assert compared.code == 1, compared.err


def test_one_version_is_added_to_every_stack_and_the_framework_stays_the_axis(project: Project) -> None:
    report = project.regress("--with", "TinyTrainer==1.0.0")
    assert report.code == 0, report.said.err
    assert [one["id"] for one in report.json["stacks"]] == [stack(GOOD, "1.0.0"), stack(LATER, "1.0.0")]
    assert [one["name"] for one in report.json["stacks"]] == [GOOD, LATER]
    assert "tinytrainer 1.0.0" in report.said.out  # once, as all stacks have it
    without = project.regress()
    assert [one["id"] for one in without.json["stacks"]] == [f"py{PYTHON}-tinyframe{one}" for one in (GOOD, LATER)]
    assert len(stored(project)) == 4  # none stands for another


def test_without_a_version_it_is_the_newest_that_goes_with_the_others(project: Project) -> None:
    planned = project.run("regress", "--with", "tinytrainer", "--dry-run")
    assert planned.code == 0, planned.err
    assert stack(GOOD, "1.3.0") in planned.out
    advised = project.run("recommend", "fit", "--with", "tinytrainer", "--results", "elsewhere")
    assert "--with tinytrainer --baseline" in advised.err


def test_what_the_stacks_have_already_needs_its_versions(project: Project) -> None:
    again = project.run("regress", "--with", "tinyframe", "--dry-run")
    assert again.code == 2
    assert again.err == (
        f"dsregress: error: --with: tinyframe is already in the stacks, as {GOOD}; "
        "give the versions to compare: --with tinyframe=SPEC\n"
    )


def test_its_releases_can_be_searched(project: Project) -> None:
    file = project.folder / "bisect.json"
    said = project.run(
        *("bisect", "1.0.0..1.3.0", "--package", "tinytrainer", "--with", f"tinyframe={GOOD}", "--scenario", "fit"),
        *("--json", str(file)),
    )
    assert said.code == 0, said.err
    assert said.out.startswith(
        "tinytrainer 1.2.0 is the first bad release: device memory held after it ends, backward\n"
    )
    (course,) = json.loads(file.read_bytes())["courses"]
    assert [probe["name"] for probe in course["probes"]] == ["1.0.0", "1.1.0", "1.2.0", "1.3.0"]
    assert {result["cell"]["stack"]["versions"]["tinyframe"] for result in stored(project)} == {GOOD}


def test_releases_of_the_framework_are_searched_with_it(project: Project) -> None:
    said = project.run(
        *("bisect", f"{GOOD}..1.1.0", "--with", "tinytrainer=1.2.0", "--scenario", "fit"),
        *("--metric", "backward.device_retained_bytes"),
    )
    assert said.code == 0, said.err  # the trainer's own fault is in both
    assert {result["installed"]["tinytrainer"] for result in stored(project)} == {"1.2.0"}
    assert {result["cell"]["stack"]["versions"]["tinytrainer"] for result in stored(project)} == {"1.2.0"}
    again = project.run("bisect", f"{GOOD}..1.1.0", "--with", "tinytrainer=1.0.0,1.2.0", "--scenario", "fit")
    assert (again.code, again.err) == (
        2,
        "dsregress: error: tinytrainer: 1.0.0,1.2.0 matches 2 releases; name exactly one\n",
    )


def test_a_release_means_the_cell_that_was_measured_with_it(project: Project) -> None:
    assert project.regress("--with", "tinytrainer=1.1.0", "--no-explain").code == 0
    said = project.run("explain", f"{GOOD}/fit/base/cpu", "--against", LATER)
    assert said.code == 4  # tinyframe's meter does not say who holds the memory
    for version in (GOOD, LATER):
        assert f"finding what holds the memory of {stack(version, '1.1.0')}/fit/base/cpu\n" in said.err
    assert "environment" not in said.err  # none was built


@pytest.mark.parametrize(
    "command",
    [
        ("remedies", "fit", "--with", f"tinyframe={GOOD}"),
        ("recommend", "fit"),
        ("explain", f"{GOOD}/fit/base/cpu"),
        ("env", GOOD),
        ("stacks",),
        ("stacks", "--json", "-"),
    ],
    ids=" ".join,
)
def test_every_command_that_names_stacks_takes_it(project: Project, command: tuple[str, ...]) -> None:
    said = project.run(*command, "--with", "tinytrainer=1.1.0")
    if command[0] == "recommend":
        assert said.code == 4
        assert f"regress --with tinyframe={GOOD},{LATER} --with tinytrainer=1.1.0 --baseline {GOOD}" in said.err
    else:
        assert said.code in (0, 4), said.err
        if said.code == 0:
            assert re.search(r"tinyframe\W*1\.0\.0\W*(\+ )?tinytrainer\W*1\.1\.0", said.out)
    assert {result["cell"]["stack"]["versions"].get("tinytrainer") for result in stored(project)} <= {"1.1.0"}


def test_without_an_index_what_was_installed_once_is_enough(project: Project) -> None:
    assert project.regress("--with", "tinytrainer=1.0.0").code == 0
    said = project.run("stacks", "--with", "tinytrainer=>=1.2", DSREGRESS_OFFLINE="1")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "dsregress: error: package index: offline: cannot look up releases of tinytrainer; "
        "run once without DSREGRESS_OFFLINE\n"
    )
