"""``clean`` removes environments that no configured stack uses, says how much that frees, and touches no results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.offline.project import GOOD, NOT_INSTALLING, VERSION, Project

OTHER, NAMED = VERSION["new-default"], VERSION["hungry"]


@pytest.fixture
def own(project: Project) -> Project:
    """The project with environments of its own: of two configured releases, a named stack and one more."""
    made = Project(folder=project.folder, variables=project.variables, work=project.folder / "work")
    made.configure(GOOD, OTHER, text=f'[tool.dsregress.stacks]\nold = {{ tinyframe = "{NAMED}" }}\n')
    assert made.regress("--no-explain", "--fail-on", "none").code == 0
    for version in (NAMED, "2.0.0"):
        assert made.run("env", version).code == 0
    return made


def environments(project: Project) -> list[str]:
    places = (project.work / "envs").glob("*/dsregress.json") if (project.work / "envs").exists() else []
    return sorted(re.sub(r"^py[\d.]+-tinyframe|-[0-9a-f]{12}-cpu$", "", file.parent.name) for file in places)


def without_sizes(out: str) -> list[str]:
    return [re.sub(r"-[0-9a-f]{12,16}\b", "", re.sub(r"[\d.]+ [KM]?i?B", "SIZE", line)) for line in out.splitlines()]


def test_what_no_configured_stack_uses_is_removed_and_results_are_not(own: Project) -> None:
    four = sorted({GOOD, OTHER, NAMED, "2.0.0"})
    assert environments(own) == four
    results = own.results_files
    said = own.run("clean", "--dry-run")
    assert (said.code, said.err) == (0, "")
    python = Path(own.run("env", "2.0.0").out.strip()).parents[1].name.partition("-")[0]
    assert without_sizes(said.out) == [f"would remove envs/{python}-tinyframe2.0.0-cpu: SIZE", "SIZE would be free"]
    assert environments(own) == four

    said = own.run("clean")
    assert (said.code, said.err) == (0, "")
    assert without_sizes(said.out) == [f"removed envs/{python}-tinyframe2.0.0-cpu: SIZE", "SIZE freed"]
    assert environments(own) == sorted({GOOD, OTHER, NAMED})
    assert own.run("clean").out == "nothing to remove\n"

    said = own.run("clean", "--all")
    assert said.code == 0
    assert "removed envs: " in said.out
    assert environments(own) == []
    assert own.results_files == results
    assert own.regress("--no-explain", "--fail-on", "none").code == 0


def test_nothing_is_removed_where_the_configured_stacks_are_not_known(own: Project) -> None:
    before = environments(own)
    own.configure(GOOD, "7.7.7")
    said = own.run("clean")
    assert said.code == 2
    assert "7.7.7" in said.err
    assert environments(own) == before


def test_a_stack_that_does_not_install_is_no_obstacle(own: Project) -> None:
    own.configure(GOOD, NOT_INSTALLING)
    assert own.run("clean").code == 0
    assert environments(own) == [GOOD]


def test_a_folder_that_is_not_there_has_nothing_to_remove(project: Project) -> None:
    empty = Project(folder=project.folder, variables=project.variables, work=project.folder / "none")
    empty.configure(GOOD)
    assert empty.run("clean").out == f"{empty.work}: no environments\n"
