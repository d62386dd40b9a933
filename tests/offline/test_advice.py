"""`remedies` and `recommend`: advice measured, and given."""

from __future__ import annotations

import json
import shutil

from tests.offline.project import GOOD, VERSION, Project, stack


def test_remedies_are_runs_of_their_own_and_another_release_is_one_of_them(project: Project) -> None:
    file = project.folder / "remedies.json"
    said = project.run("remedies", "fit", "--with", f"tinyframe={VERSION['hungry']}", "--json", str(file))
    assert said.code == 0, said.err
    (found,) = json.loads(file.read_bytes())["answers"]
    assert found["stack"]["id"] == stack(VERSION["hungry"])
    assert found["unmodified"]["phases"]["backward"]["device_retained_bytes"] == 24_000
    alone = {case["remedies"][0]: case for case in found["alone"]}
    assert list(alone) == ["accumulate over three", "one rank", "pin the first release"]
    pinned = alone["pin the first release"]
    assert (pinned["stack"], pinned["does"]) == (stack(GOOD), "leaves the peak, holds less after backward")
    assert pinned["phases"]["backward"]["device_retained_bytes"] == 16_000
    assert found["not_run"] == [{"name": "two ranks", "reason": "already set"}]
    assert "not run: two ranks: already set" in said.out


def test_remedies_that_were_measured_are_not_measured_again(project: Project) -> None:
    arguments = ("remedies", "fit", "--with", f"tinyframe={VERSION['hungry']}")
    first = project.run(*arguments)
    before = project.results_files
    again = project.run(*arguments)
    assert "all 4 stored" in again.err
    assert (again.code, again.out, project.results_files) == (0, first.out, before)


def test_a_bundle_answers_and_what_it_lacks_is_measured_elsewhere(project: Project) -> None:
    arguments = ("remedies", "fit", "--with", f"tinyframe={VERSION['hungry']}")
    first = project.run(*arguments)
    assert project.run("bundle", "results", "--output", "run.jsonl.gz").code == 0
    before = (project.folder / "run.jsonl.gz").read_bytes()
    shutil.rmtree(project.results)
    again = project.run(*arguments, "--results", "run.jsonl.gz")
    assert (again.code, again.out) == (0, first.out)
    assert not project.results.exists()
    more = project.run(*arguments, "--variant", "world_size=1", "--results", "run.jsonl.gz")
    assert more.code == 0, more.err
    assert project.results_files
    assert (project.folder / "run.jsonl.gz").read_bytes() == before


def test_where_no_release_is_named_the_newest_configured_one_is_taken(project: Project) -> None:
    said = project.run("remedies", "fit", "--variant", "world_size=1")
    assert said.code == 0, said.err
    assert said.out.startswith(f"fit, world_size=1, {VERSION['hungry']}, run on CPU: what does each remedy buy?\n")


def test_an_unmodified_case_that_does_not_run_is_reported_and_the_rest_stands(project: Project) -> None:
    said = project.run(
        "remedies", "fit", "--with", f"tinyframe={VERSION['not-importing']}", "--variant", "world_size=1"
    )
    assert "the unmodified case did not run to its end: failed in import: " in said.out
    assert said.code == 0  # the first release did run


def test_a_release_is_recommended_from_what_is_stored(project: Project) -> None:
    project.configure(GOOD, VERSION["hungry"])
    assert project.regress("--variant", "base").code == 1
    said = project.run("recommend", "fit")
    assert said.code == 0, said.err
    assert said.out.startswith(
        f"""\
fit: which release of tinyframe to pin?

pin tinyframe {GOOD}: the newest of 2 releases with results here without a known problem (measured in cpu)

newer, not recommended:
  {VERSION["hungry"]}  backward holds """
    )


def test_a_release_that_was_not_measured_is_named_with_the_command_that_does(project: Project) -> None:
    assert project.regress("--variant", "base").code == 1
    said = project.run("recommend", "fit", "--with", f"tinyframe={GOOD},{VERSION['hungry']},2.0.0")
    assert said.code == 4
    assert "no results for: 2.0.0" in said.out
    command = f"  dsregress regress --with tinyframe={GOOD},2.0.0 --baseline {GOOD} --scenario fit --variant base"
    assert command in said.out.splitlines()
    done = project.run(*command.split()[1:], "--json", str(project.folder / "more.json"))
    assert done.code == 0, done.err
    again = project.run("recommend", "fit", "--with", f"tinyframe={GOOD},{VERSION['hungry']},2.0.0")
    assert again.code == 0
    assert "pin tinyframe 2.0.0: the newest of 3 releases" in again.out


def test_without_any_result_there_is_no_answer(project: Project) -> None:
    said = project.run("recommend", "fit")
    assert (said.code, said.out) == (4, "")
    assert "no results of fit; `dsregress regress --scenario fit --variant base` measures some" in said.err
