"""`regress --source`: a working tree against the commit that it comes from; what both have is not its fault."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path

import pytest

from tests.offline.project import Project
from tests.packages import history


@pytest.fixture
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("upstream") / "tinyframe"
    history.make(folder)
    return folder


def edit(clone: Path, behaviour: str) -> None:
    (clone / "tinyframe" / "_release.py").write_text(f'BEHAVIOUR = "{behaviour}"\n')


def files_of(clone: Path) -> list[str]:
    return sorted(str(file) for file in (clone / ".git").rglob("*") if file.is_file())


def test_what_is_not_committed_is_measured_against_the_merge_base(project: Project, clone: Path) -> None:
    history.git(clone, "checkout", "--quiet", "-b", "change")
    edit(clone, "hungry")
    before = files_of(clone)
    report = project.regress("--source", str(clone), "--against", "main")
    assert report.code == 1, report.said.err
    head = history.git(clone, "rev-parse", "main")
    base, changed = (one["versions"]["tinyframe"] for one in report.json["stacks"])
    assert base == f"1.1.0+g{head[:12]}"
    assert changed.startswith(f"{base}.g")
    (found,) = [one for one in report.json["findings"] if one["metric"] == "device_retained_bytes"]
    assert (found["kind"], found["phase"]) == ("regression", "backward")
    assert files_of(clone) == before
    assert history.git(clone, "status", "--short") == "M tinyframe/_release.py"
    again = project.run("regress", "--source", str(clone), "--against", "main")
    assert again.err == "all 2 stored\n"
    assert again.out.startswith(
        f"tinyframe before {head[:12]} to this change {changed.rpartition('.g')[2]}: 1 memory leak\n"
    )
    assert "Your upgrade" not in again.out


def test_what_runs_write_into_the_checkout_is_no_change(project: Project, clone: Path) -> None:
    history.git(clone, "checkout", "--quiet", "-b", "change")
    edit(clone, "hungry")
    inside = {"DSREGRESS_ENVIRONMENTS": str(clone / ".dsregress"), "DSREGRESS_RESULTS": str(clone / "results")}
    here = dataclasses.replace(project, variables={**project.variables, **inside})
    planned = here.run("regress", "--source", str(clone), "--against", "main", "--dry-run")
    for folder in (".dsregress/envs", "results"):
        (clone / folder).mkdir(parents=True)
        (clone / folder / "written").touch()
    again = here.run("regress", "--source", str(clone), "--against", "main", "--dry-run")
    assert again.code == 0, again.err
    assert again.out.splitlines()[:2] == planned.out.splitlines()[:2]


def test_what_is_printed_to_measure_a_change_again_does_so(project: Project, clone: Path) -> None:
    history.git(clone, "checkout", "--quiet", "-b", "change")
    edit(clone, "hungry")
    comment = project.folder / "comment.md"
    report = project.regress("--source", str(clone), "--against", "main", "--export", f"comment={comment}")
    (line,) = [each for each in comment.read_text().splitlines() if "problem 1 again: " in each]
    again = project.run(*shlex.split(line.partition("`")[2].rpartition("`")[0])[1:], "--json", "again.json")
    assert again.code == 1, again.err
    written = json.loads((project.folder / "again.json").read_bytes())
    assert [one["id"] for one in written["stacks"]] == [one["id"] for one in report.json["stacks"]]


def test_only_what_the_change_does_is_worse(project: Project, clone: Path) -> None:
    history.git(clone, "checkout", "--quiet", "-b", "change", "v1.1.0")
    (clone / "CHANGES").write_text("nothing that runs\n")
    report = project.regress("--source", str(clone), "--against", "v1.1.0")
    assert report.code == 0, report.said.err
    assert [one for one in report.json["findings"] if one["kind"] in ("regression", "wrong", "failed")] == []


def test_nothing_changed_is_no_pass(project: Project, clone: Path) -> None:
    said = project.run("regress", "--source", str(clone), "--against", "main")
    assert said.code == 4
    assert said.err == (
        f"dsregress: error: {clone}: nothing is changed since main; commit or edit something, or name an older commit with "
        "--against\n"
    )


def test_a_branch_that_is_not_here_is_named_with_what_to_do(project: Project, clone: Path) -> None:
    said = project.run("regress", "--source", str(clone))
    assert said.code == 2
    assert said.err == (
        f"dsregress: error: {clone}: has no commit origin/main; fetch it: git fetch origin; a workflow needs fetch-depth: "
        "0\n"
    )


def test_a_change_that_does_not_import_is_a_crash_of_this_change(project: Project, clone: Path) -> None:
    history.git(clone, "checkout", "--quiet", "-b", "change")
    edit(clone, "not-importing")
    history.git(clone, "commit", "--quiet", "--all", "--message", "Follow torch")
    report = project.regress("--source", str(clone), "--against", "main")
    assert report.code == 1, report.said.err
    assert [one["outcome"] for one in report.json["cells"]] == ["passed", "failed"]


def test_what_was_wrong_before_is_not_red(project: Project, clone: Path) -> None:
    edit(clone, "wrong")
    history.git(clone, "commit", "--quiet", "--all", "--message", "Be wrong")
    history.git(clone, "checkout", "--quiet", "-b", "change")
    (clone / "CHANGES").write_text("nothing that runs\n")
    report = project.regress("--source", str(clone), "--against", "main")
    assert report.code == 0, json.dumps(report.json["findings"])[:2000]
    assert "1 problem left out: the commit before has them too" in report.json["notes"]


def test_a_project_that_tags_release_branches_alone_is_put_after_the_release_before_its_version(
    project: Project, clone: Path
) -> None:
    history.git(clone, "tag", "--delete", "v1.1.0")
    package = clone / "tinyframe" / "__init__.py"
    package.write_text(f'{package.read_text()}\n__version__ = "1.2.0.dev0"\n')
    history.git(clone, "commit", "--quiet", "--all", "--message", "Begin 1.2.0")
    history.git(clone, "checkout", "--quiet", "-b", "change")
    edit(clone, "hungry")
    said = project.run("regress", "--source", str(clone), "--against", "main", "--dry-run")
    assert said.code == 0, said.err
    assert "tinyframe1.1.0+g" in said.out
