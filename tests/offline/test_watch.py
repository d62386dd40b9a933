"""`watch`: a release that comes to the index is measured once, beside the one before it."""

from __future__ import annotations

import json

from tests.offline.project import GOOD, VERSION, Project

HUNGRY = VERSION["hungry"]


def test_a_new_release_is_measured_reported_and_drafted_and_then_it_is_not_new(dated: Project) -> None:
    said = dated.run("watch", "--as-of", "2025-02-20")
    assert said.code == 1, said.err
    assert said.out.splitlines()[0] == f"new: tinyframe {HUNGRY}; beside it: {GOOD}"
    folder = dated.folder / "watch" / f"tinyframe-{HUNGRY}"
    assert sorted(file.name for file in folder.iterdir()) == [
        f"DRAFT-tinyframe-{HUNGRY}-1.json", "comment.md", "report.json", "report.md", "site",
    ]  # fmt: skip
    draft = json.loads((folder / f"DRAFT-tinyframe-{HUNGRY}-1.json").read_bytes())
    (affected,) = draft["affected"]
    assert affected["versions"] == [HUNGRY]
    assert affected["ecosystem_specific"]["unaffected"] == [GOOD]
    comment = (dated.folder / "watch" / "comment.md").read_text().splitlines()
    assert comment[:2] == ["**dsregress: 1 new release**", ""]
    assert comment[2].startswith(f"- tinyframe {HUNGRY}, beside {GOOD}: ")
    assert comment[3].startswith("- 1 draft of advisories: ")
    again = dated.run("watch", "--as-of", "2025-02-20")
    assert (again.code, again.out) == (0, "nothing is new\n")


def test_since_a_day_every_release_that_came_is_named_and_a_dry_run_measures_none(dated: Project) -> None:
    said = dated.run("watch", "--since", "2025-01-31", "--as-of", "2025-02-20", "--dry-run")
    assert (said.code, said.out) == (0, f"new: tinyframe {HUNGRY}; beside it: {GOOD}\n")
    assert not dated.results.exists()
    said = dated.run("watch", "--since", "2025-02-20", "--as-of", "2025-02-21", "--dry-run")
    assert (said.code, said.out) == (0, "nothing is new\n")


def test_a_day_that_is_none_is_refused(dated: Project) -> None:
    said = dated.run("watch", "--since", "yesterday")
    assert said.code == 2
    assert said.err == (
        "dsregress: error: Invalid value for '--since': 'yesterday' does not match the format '%Y-%m-%d'; "
        "`dsregress watch --help` says what it takes\n"
    )


def test_a_release_for_which_nothing_can_run_here_is_no_pass(dated: Project) -> None:
    said = dated.run("watch", "--as-of", "2025-02-20", "--device", "cuda")
    assert said.code == 4
    assert said.err.splitlines()[-1] == (
        f"dsregress: tinyframe {HUNGRY}: watch: all selected workloads are skipped on this machine; select others"
    )


def test_a_package_that_no_index_has_is_refused(dated: Project) -> None:
    said = dated.run("watch", "--package", "nowhere")
    assert said.code == 2
    assert said.err.splitlines()[-1] == (
        "dsregress: error: package index: no configured index has a package 'nowhere'; check the name and pip config list"
    )
