"""`action.yml`, its steps carried out in order as GitHub's runner does it: bash, the inputs in the environment, files for
outputs and the summary. What other actions do (Python, caches, artifacts) is not here, and nor is GitHub."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dsregress.config.settings import Settings
from tests.offline.project import Project
from tests.packages import history
from tests.paths import ROOT

ACTION = msgspec.yaml.decode((ROOT / "action.yml").read_bytes())
DEFAULTS = {name: one.get("default", "") for name, one in ACTION["inputs"].items()}

_EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")


@dataclass(frozen=True)
class Runner:
    """A job on GitHub's runner: its workspace, its folder for temporary files, its variables."""

    workspace: Path
    temp: Path
    variables: dict[str, str]

    def run(self, job: str, github: Mapping[str, Any] = {}, **inputs: str) -> tuple[int, dict[str, str], str]:
        """Run the steps of our own in order until one fails. Return that exit code, the outputs, and the summary."""
        given = {**DEFAULTS, "job": job, **{name.replace("_", "-"): value for name, value in inputs.items()}}
        outputs: dict[str, str] = {}
        summary = self.temp / "summary"
        for step in ACTION["runs"]["steps"]:
            if "run" not in step or not _holds(step["if"], given):
                continue
            assert step["shell"] == "bash"
            written = self.temp / "outputs"
            written.write_text("")
            variables = {
                **self.variables,
                **{name: _filled(text, given, outputs, github) for name, text in step.get("env", {}).items()},
                "GITHUB_ACTION_PATH": str(ROOT),
                "GITHUB_OUTPUT": str(written),
                "GITHUB_STEP_SUMMARY": str(summary),
                "RUNNER_TEMP": str(self.temp),
            }
            script = self.temp / "step.sh"
            script.write_text(step["run"])
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
                cwd=self.workspace, env=variables, capture_output=True, text=True, timeout=300, check=False,
            )  # fmt: skip
            outputs |= dict(line.split("=", 1) for line in written.read_text().splitlines())
            if done.returncode:
                return done.returncode, outputs, (summary.read_text() if summary.exists() else "") or done.stderr
        return 0, outputs, summary.read_text() if summary.exists() else ""


def _holds(condition: str, given: Mapping[str, str]) -> bool:
    found = re.fullmatch(r"inputs\.job (==|!=) '(\w+)'", condition)
    assert found is not None, condition
    return (given["job"] == found[2]) == (found[1] == "==")


def _filled(text: str, given: Mapping[str, str], outputs: Mapping[str, str], github: Mapping[str, Any]) -> str:
    def value(found: re.Match[str]) -> str:
        expression = found[1]
        if name := re.fullmatch(r"inputs\.([\w-]+)", expression):
            return given[name[1]]
        if name := re.fullmatch(r"steps\.answer\.outputs\.(\w+)", expression):
            return outputs[name[1]]
        if expression.startswith("inputs.against ||"):
            return given["against"] or f"origin/{github['base_ref']}"
        return str(github[expression])

    return _EXPRESSION.sub(value, text)


@pytest.fixture
def runner(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """A runner whose Python makes no environment: our command is the checkout's."""
    temp = tmp_path_factory.mktemp("runner")
    tools = temp / "tools"
    tools.mkdir()
    python = tools / "python3"
    python.write_text(
        '#!/bin/sh\n[ "$2" = venv ] || exec PYTHON "$@"\nmkdir -p "$3/bin"\n'
        'printf "#!/bin/sh\\nexit 0\\n" > "$3/bin/pip"\nchmod +x "$3/bin/pip"\n'.replace("PYTHON", project.program[0])
    )
    dsregress = temp / "dsregress" / "bin" / "dsregress"
    dsregress.parent.mkdir(parents=True)
    dsregress.write_text(f'#!/bin/sh\nexec {project.program[0]} -m dsregress "$@"\n')
    for file in (python, dsregress):
        file.chmod(0o755)
    variables = {**project.variables, "PATH": f"{tools}{os.pathsep}{project.variables['PATH']}"}
    return Runner(workspace=project.folder, temp=temp, variables=variables)


def commit(folder: Path, message: str) -> None:
    history.git(folder, "add", "--all")
    history.git(folder, "commit", "--quiet", "--message", message)


@pytest.fixture
def bumped(runner: Runner) -> Runner:
    """A pull request that takes DeepSpeed from 0.16.8 to 0.18.9 in a job that accumulates under ZeRO-2."""
    folder = runner.workspace
    history.git(folder, "init", "--quiet", "--initial-branch=main")
    settings = {"zero_optimization": {"stage": 2}, "gradient_accumulation_steps": 4, "gradient_clipping": 1.0}
    (folder / "ds.json").write_text(json.dumps(settings))
    (folder / "train.py").write_text("import deepspeed\ndeepspeed.initialize()\n")
    (folder / "requirements.txt").write_text("deepspeed==0.16.8\ntorch==2.9.1\n")
    (folder / "pyproject.toml").write_text(
        '[tool.dsregress.job]\nprogram = "deepspeed train.py --deepspeed_config ds.json"\nconfig = ["ds.json"]\n'
        'packages = ["requirements.txt"]\n'
    )
    commit(folder, "Train")
    history.git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    history.git(folder, "checkout", "--quiet", "-b", "bump")
    (folder / "requirements.txt").write_text("deepspeed==0.18.9\ntorch==2.9.1\n")
    commit(folder, "Bump DeepSpeed")
    return runner


def test_a_bump_is_answered_in_fifteen_lines_and_ends_with_the_verdict(bumped: Runner) -> None:
    code, outputs, summary = bumped.run("bump", {"base_ref": "main"})
    assert outputs["code"] == str(code)
    assert summary.startswith("**dsregress: deepspeed 0.16.8 -> 0.18.9: ")
    assert len(summary.splitlines()) <= 15
    comment = bumped.temp / "dsregress-comment" / "comment.md"
    assert comment.read_text() == summary


def test_inputs_take_the_place_of_what_is_configured(bumped: Runner) -> None:
    (bumped.workspace / "pyproject.toml").unlink()
    commit(bumped.workspace, "Configure nothing")
    _, _, configured = bumped.run(
        "bump", {"base_ref": "main"}, packages="requirements.txt\n", config="ds.json\n", ignore="DSR-2026-0001\n"
    )
    assert configured.startswith("**dsregress: deepspeed 0.16.8 -> 0.18.9: ")


def test_what_no_advisory_knows_is_measured_if_that_is_wanted(bumped: Runner) -> None:
    """The command that the answer names, on a stand-in of ours: no release that is not known can be installed here."""
    stand_in = bumped.temp / "dsregress" / "bin" / "dsregress"
    ours = stand_in.with_name("ours")
    stand_in.rename(ours)
    stand_in.write_text(
        f'#!/bin/bash\n[ "$1" = regress ] || exec {ours} "$@"\nprintf "%s\\n" "$@" > {bumped.temp}/measured\n'
        f'echo "**dsregress: nothing is worse**" > {bumped.temp}/dsregress-comment/comment.md\n'
    )
    stand_in.chmod(0o755)
    (bumped.workspace / "requirements.txt").write_text("deepspeed==0.99.0\ntorch==2.9.1\n")
    code, _, summary = bumped.run("bump", {"base_ref": "main"})
    assert code == 4
    assert not (bumped.temp / "measured").exists()
    assert "- measure it: `dsregress regress --deepspeed 0.16.8,0.99.0 --torch 2.9.1 --baseline 0.16.8`" in summary
    (bumped.temp / "summary").unlink()
    code, outputs, summary = bumped.run("bump", {"base_ref": "main"}, measure="true")
    assert (code, outputs["code"], summary) == (0, "0", "**dsregress: nothing is worse**\n")
    words = (bumped.temp / "measured").read_text().splitlines()
    assert words[:7] == ["regress", "--deepspeed", "0.16.8,0.99.0", "--torch", "2.9.1", "--baseline", "0.16.8"]


def test_a_change_of_a_framework_is_measured_against_its_merge_base(runner: Runner) -> None:
    clone = runner.workspace / "tinyframe"
    history.make(clone)
    history.git(clone, "update-ref", "refs/remotes/origin/main", "main")
    history.git(clone, "checkout", "--quiet", "-b", "change")
    (clone / "tinyframe" / "_release.py").write_text('BEHAVIOUR = "hungry"\n')
    commit(clone, "Keep what is gathered")
    code, outputs, summary = runner.run("change", {"base_ref": "main"}, source="tinyframe")
    assert (code, outputs["code"]) == (1, "1"), summary
    assert ": 1 memory leak**" in summary.splitlines()[0]
    assert len(summary.splitlines()) <= 15
    report = json.loads((runner.temp / "dsregress-comment" / "report.json").read_bytes())
    assert len(report["stacks"]) == 2


def test_a_night_measures_what_is_new(dated: Project, runner: Runner) -> None:
    night = Runner(workspace=dated.folder, temp=runner.temp, variables={**runner.variables, **{
        name: value for name, value in dated.variables.items() if name.startswith("PIP_")
    }})  # fmt: skip
    code, outputs, summary = night.run("nightly", {"base_ref": ""})
    assert outputs["code"] == str(code)
    assert summary.startswith("**dsregress: "), summary
    code, _, again = night.run("nightly", {"base_ref": ""})
    assert code == 0, again


def test_a_job_that_does_not_exist_is_an_error_of_the_workflow(runner: Runner) -> None:
    code, outputs, _ = runner.run("bumps", {"base_ref": "main"})
    assert (code, outputs.keys()) == (2, {"version"})


def test_what_the_cache_keeps_is_what_the_jobs_write(runner: Runner) -> None:
    """Between restoring and saving; the folder of results is not the repository's, which may have one of that name."""
    restore, ask, save = (
        next(step for step in ACTION["runs"]["steps"] if step.get("uses", step.get("name", "")).startswith(start))
        for start in ("actions/cache/restore@", "Ask dsregress", "actions/cache/save@")
    )
    steps = ACTION["runs"]["steps"]
    assert steps.index(restore) < steps.index(ask) < steps.index(save)
    kept = restore["with"]["path"].split()
    assert save["with"]["path"].split() == kept == [".dsregress", ask["env"]["DSREGRESS_RESULTS"]]
    assert Settings(root="").environments == ".dsregress"
    for part in ("inputs.job", "steps.install.outputs.version", "uv.lock", "requirements*.txt", "dsregress.toml"):
        assert part in restore["with"]["key"]


def test_a_comment_runs_nothing_of_the_pull_request_and_is_written_by_its_branch(runner: Runner) -> None:
    gh = runner.temp / "tools" / "gh"
    gh.write_text(
        f'#!/bin/sh\necho "$@" >> {runner.temp}/calls\ncase "$*" in\n'
        f'*run*download*) mkdir -p {runner.temp}/dsregress-comment; echo "**dsregress: yes**" > '
        f"{runner.temp}/dsregress-comment/comment.md ;;\n*--paginate*) echo '[[]]' ;;\n*pulls*) echo 3 ;;\nesac\n"
    )
    gh.chmod(0o755)
    event = "github.event.workflow_run"
    github = {
        "github.token": "t", "github.repository": "a/b", f"{event}.id": "7",
        f"{event}.head_repository.owner.login": "mallory", f"{event}.head_branch": '$(touch owned)"; touch owned; "',
    }  # fmt: skip
    here = Runner(runner.workspace, runner.temp, {**runner.variables, "GITHUB_SERVER_URL": "https://github.com"})
    code, _, said = here.run("comment", github)
    assert code == 0, said
    calls = (runner.temp / "calls").read_text().splitlines()
    assert calls[0].startswith("api --method GET repos/a/b/pulls -f state=open -f head=mallory:$(touch owned)")
    assert calls[1:] == [
        f"run download 7 --name dsregress-comment --dir {runner.temp}/dsregress-comment",
        "api --paginate --slurp repos/a/b/issues/3/comments",
        "api --method POST repos/a/b/issues/3/comments --input -",
    ]
    assert not (runner.workspace / "owned").exists()
    assert all("run" not in step or "${{" not in step["run"] for step in ACTION["runs"]["steps"])
