"""Bisection of a framework whose history is known, by real runs: what is said, what is run, what is asked of git."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.offline.project import GOOD, LIMIT_S, VERSION, CommandResult, Project
from tests.offline.waiting import heard
from tests.packages import history

HUNGRY, WRONG, CRASHING = (VERSION[behaviour] for behaviour in ("hungry", "wrong", "crashing"))


@dataclass(frozen=True)
class Repository:
    """tinyframe's, and how its commits are named in what is said."""

    folder: Path
    hashes: dict[str, str]

    def named(self, text: str) -> str:
        """The text with subjects in place of hashes."""
        for subject, sha in self.hashes.items():
            text = text.replace(sha[:12], f"<{subject}>")
        return text


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("upstream") / "tinyframe"
    return Repository(folder, history.make(folder))


def bisect(project: Project, *arguments: str) -> tuple[CommandResult, dict[str, Any]]:
    """Run ``bisect`` to its end and read its JSON."""
    file = project.folder / "bisect.json"
    said = project.run("bisect", "--scenario", "fit", *arguments, "--json", str(file))
    assert file.exists(), said.err
    return said, json.loads(file.read_bytes())


def answered(course: dict[str, Any]) -> dict[str, str]:
    return {probe["name"]: probe["answer"] for probe in course["probes"] if probe["answer"]}


def without_times(text: str) -> str:
    return re.sub(r"\d+ runs, \d+ s", "N runs, T s", text)


# --- releases ---------------------------------------------------------------------------------------------------------


def test_what_is_worse_is_found_out_and_its_first_release_is_named(project: Project) -> None:
    said, found = bisect(project, "--good", GOOD, "--bad", HUNGRY)
    assert said.code == 0
    assert without_times(said.out) == (
        "tinyframe 1.1.0 is the first bad release: device memory held after it ends, backward\n"
        "\n"
        "  1.0.0  good     15.6 KiB\n"
        "> 1.1.0  bad      23.4 KiB (+7.81 KiB)\n"
        "\n"
        "2 of 2 releases answered, 0 by stored results; N runs, T s\n"
        "\n"
        "Changed upstream, 1.0.0 -> 1.1.0\n"
        "  +1 -1 tinyframe/_release.py\n"
        "\n"
        "fit/base/cpu, good 1.0.0, bad 1.1.0\n"
        "The question was chosen: 1.1.0: backward holds 7.81 KiB more after it ends (+50 %): 15.6 KiB -> 23.4 KiB, rank 0\n"
    )
    (course,) = found["courses"]
    assert course["metric"] == "backward.device_retained_bytes"
    assert course["changes"] == [{"before": "1.0.0", "after": "1.1.0", "to": "bad", "open": 0, "exact": True}]
    assert [probe["value"] for probe in course["probes"]] == [16_000, 24_000]


def test_the_first_release_that_is_good_again(project: Project) -> None:
    said, _ = bisect(project, "--bad", HUNGRY, "--good", WRONG, "--fixed", "--metric", "backward.device_retained_bytes")
    assert said.code == 0
    assert said.out.startswith(
        "tinyframe 1.2.0 is the first good release: device memory held after it ends, backward\n"
    )


def test_releases_that_end_elsewhere_are_never_blamed_and_the_interval_is_reported(project: Project) -> None:
    project.configure(GOOD, timeout_s=3)
    said, found = bisect(project, "--bad", WRONG, "--good", "2.0.0", "--fixed", "--metric", "parameter_error")
    (course,) = found["courses"]
    assert said.code == 4
    assert not found["decided"]
    assert answered(course) == {
        "1.2.0": "bad",
        **dict.fromkeys(("1.3.0", "1.4.0", "1.5.0", "1.6.0", "1.7.0"), "unknown"),
        "1.8.0": "good",
        "2.0.0": "good",
    }
    assert said.out.splitlines()[0] == (
        "tinyframe: the first good release is after 1.2.0 and not after 1.8.0, and cannot be narrowed down (no answer from "
        "1.3.0, 1.4.0, 1.5.0, 1.6.0, 1.7.0): distance of the updated parameters from plain PyTorch"
    )


def test_a_crash_is_searched_for_by_its_signature(project: Project) -> None:
    said, found = bisect(project, "--good", GOOD, "--bad", CRASHING, "--metric", "outcome")
    (course,) = found["courses"]
    assert (said.code, course["changes"][0]["before"], course["changes"][0]["after"]) == (0, WRONG, CRASHING)
    assert "ds_grads_remaining" in course["probes"][-1]["text"]


def test_a_changed_default_is_searched_for_by_its_key(project: Project) -> None:
    said, found = bisect(
        project, "--good", "1.8.0", "--bad", "1.9.0", "--metric", "configuration:tinyframe.bucket_size"
    )
    (course,) = found["courses"]
    assert (said.code, [probe["text"] for probe in course["probes"]]) == (0, ["1000", "500"])


def test_slow_steps_are_searched_for_in_rounds_beside_both_ends(project: Project) -> None:
    said, found = bisect(project, "--bad", "1.8.0", "--good", "2.0.0", "--fixed", "--metric", "step_time_s")
    (course,) = found["courses"]
    assert (said.code, answered(course)) == (0, {"1.8.0": "bad", "1.9.0": "good", "2.0.0": "good"})
    again, found = bisect(project, "--bad", "1.8.0", "--good", "2.0.0", "--fixed", "--metric", "step_time_s")
    assert (again.code, found["courses"][0]["runs"]) == (0, 0)


def test_a_fault_that_came_and_went_is_found_though_the_ends_agree(project: Project) -> None:
    question = ("--metric", "backward.device_retained_bytes")
    said, found = bisect(project, f"{GOOD}..{WRONG}", *question)
    (course,) = found["courses"]
    assert said.code == 0
    assert [(c["after"], c["to"]) for c in course["changes"]] == [(HUNGRY, "bad"), (WRONG, "good")]
    assert course["notes"] == []
    assert said.out.splitlines()[:2] == [
        "tinyframe 1.1.0 is the first bad release: device memory held after it ends, backward",
        "tinyframe 1.2.0 is the first good release again: device memory held after it ends, backward",
    ]
    said, _ = bisect(project, f"{GOOD}..{WRONG}", *question, "--all")
    assert said.out.splitlines()[:2] == [
        "tinyframe 1.1.0 is the first bad release: device memory held after it ends, backward",
        "tinyframe 1.2.0 is the first good release again: device memory held after it ends, backward",
    ]


# --- what is there is not measured again ------------------------------------------------------------------------------


def test_stored_results_answer_before_anything_is_run(project: Project) -> None:
    first, found = bisect(project, "--good", GOOD, "--bad", CRASHING, "--metric", "outcome")
    runs = found["courses"][0]["runs"]
    second, found = bisect(project, "--good", GOOD, "--bad", CRASHING, "--metric", "outcome")
    assert (runs > 0, found["courses"][0]["runs"]) == (True, 0)
    assert second.out.splitlines()[0] == first.out.splitlines()[0]
    assert second.err == f"{len(answered(found['courses'][0]))} of 4 releases are answered by stored results\n"


def test_results_of_regress_are_answers(project: Project) -> None:
    project.regress()
    said, found = bisect(project, "--good", GOOD, "--bad", HUNGRY)
    assert (said.code, found["courses"][0]["runs"]) == (0, 0)


def test_an_interrupted_search_goes_on(project: Project) -> None:
    project.configure(GOOD, timeout_s=LIMIT_S)
    arguments = ("--scenario", "fit", "--good", GOOD, "--bad", "2.0.0", "--all", "--metric", "loss_error")
    with project.started("bisect", *arguments) as process:
        heard(process, "\n  2.0.0")  # next is 1.5.0, which hangs
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert rest.endswith("interrupted; finished measurements are stored: run the same command to continue\n")
    stored = len(project.results_files)
    project.configure(GOOD, timeout_s=3)
    _, found = bisect(project, *arguments[2:])
    assert found["courses"][0]["runs"] == 11 - 2
    assert stored == 2
    assert answered(found["courses"][0])[WRONG] == "bad"


# --- calls that are wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--good", GOOD],
            "bisect: no --bad version; write bisect --good 0.15.0 --bad 0.16.4, or bisect 0.15.0..0.16.4",
        ),
        (["--good", GOOD, "--bad", GOOD], "bisect: both ends are 1.0.0; name two versions"),
        (
            ["--good", "1.1.0", "--bad", "1.0.0"],
            "bisect: the good version 1.1.0 is newer than the bad one 1.0.0; swap them, or add --fixed to find the first "
            "release after 1.0.0 that is good again",
        ),
        (
            ["--good", "1.0.0", "--bad", "1.1.0", "--fixed"],
            "bisect: with --fixed the bad version is the older one, and 1.1.0 is newer than 1.0.0; drop --fixed to "
            "find the first bad release",
        ),
        (["1.1.0..1.0.0"], "bisect: 1.1.0 is newer than 1.0.0; write 1.0.0..1.1.0"),
        (
            ["--good", GOOD, "--bad", "1.0.5"],
            "tinyframe: unknown release 1.0.5; nearest are 1.0.0, 1.1.0, 1.2.0; "
            "`pip index versions tinyframe` lists those of your indexes",
        ),
        (
            ["--good", GOOD, "--bad", "1.1.0", "--metric", "backward.device_retaned_bytes"],
            "--metric: no such metric: backward.device_retaned_bytes; did you mean backward.device_retained_bytes, "
            "backward.device_peak_bytes, forward.device_retained_bytes?",
        ),
        (
            ["--good", GOOD, "--bad", "1.1.0", "--metric", "device_retained_bytes"],
            "--metric: device_retained_bytes is measured by phase; write e.g. backward.device_retained_bytes; "
            "phases: load, init, generate, evaluate, reload_states, forward, backward, step, offload_states, save",
        ),
        (
            ["--good", GOOD, "--bad", "1.1.0", "--variant", "zero_stage=2"],
            "fit: no such variant: zero_stage=2 ('zero_stage' is not a parameter of this scenario); "
            "`dsregress scenarios` lists scenarios with their variants",
        ),
        (
            ["--good", GOOD, "--bad", "1.1.0", "--device", "sim"],
            "fit/base/sim: the scenario does not run on sim (it runs on: cpu); take another --device",
        ),
        (
            ["--good", GOOD, "--bad", "1.1.0", "--package", "torch"],
            "package index: no configured index has a package 'torch'; check the name and pip config list",
        ),
        (
            ["--good", GOOD, "--bad", "1.1.0", "--repository", "nowhere"],
            "nowhere: not a git repository; --repository takes a clone or a URL",
        ),
    ],
)
def test_a_wrong_call_is_one_line_and_nothing_is_built(project: Project, arguments: list[str], line: str) -> None:
    said = project.run("bisect", "--scenario", "fit", *arguments)
    assert (said.code, said.out, said.err) == (2, "", f"dsregress: error: {line}\n")
    assert not project.results.exists()


def test_ends_that_do_not_differ_are_a_wrong_call_once_that_is_measured(project: Project) -> None:
    question = ("--metric", "backward.device_retained_bytes")
    said = project.run("bisect", "--scenario", "fit", "--good", GOOD, "--bad", WRONG, *question)
    line = (
        "dsregress: error: bisect: 1.0.0 and 1.2.0 do not differ in backward.device_retained_bytes: 15.6 KiB and 15.6 KiB; "
        "`bisect 1.0.0..1.2.0` looks for a change that came and went between them"
    )
    assert (said.code, said.out, said.err.splitlines()[-1]) == (2, "", line)
    again = project.run("bisect", "--scenario", "fit", "--good", GOOD, "--bad", WRONG, *question)
    assert (again.code, again.out, again.err.splitlines()) == (2, "", [line])


def test_a_good_end_that_fails_says_nothing_of_the_bad_one(project: Project) -> None:
    said = project.run("bisect", "--scenario", "fit", "--good", CRASHING, "--bad", "1.4.0")
    assert (said.code, said.out) == (4, "")
    assert re.fullmatch(
        r"dsregress: error: bisect: 1\.3\.0 gives no answer: failed in backward: .*; choose another end, or search for the "
        r"outcome \(--metric outcome\)",
        said.err.splitlines()[-1],
    )


def test_swapped_ends_are_reported_from_what_is_stored_before_anything_is_run(project: Project) -> None:
    project.configure(HUNGRY, "2.0.0")
    project.regress()
    said = project.run("bisect", "--scenario", "fit", "--good", HUNGRY, "--bad", "2.0.0")
    assert (said.code, said.out, said.err) == (
        2,
        "",
        "dsregress: error: bisect: good and bad are swapped: 2.0.0 is better than 1.1.0 (backward holds 7.81 KiB less after "
        "it ends (-33 %): 23.4 KiB -> 15.6 KiB, rank 0); --good 2.0.0 --bad 1.1.0 --fixed finds the release where that "
        "began\n",
    )


# --- commits ----------------------------------------------------------------------------------------------------------


def test_from_the_release_on_to_the_commit_around_one_that_does_not_import(
    project: Project, repository: Repository
) -> None:
    said, found = bisect(project, "--good", GOOD, "--bad", HUNGRY, "--repository", str(repository.folder))
    assert said.code == 4
    releases, commits = found["courses"]
    assert releases["decided"]
    assert repository.named(said.out).split("\n\n")[4] == (
        "tinyframe: the first bad commit is after <Gather weights later> and not after <Keep what is gathered>, and cannot "
        "be narrowed down (no answer from <Follow torch's new names>): device memory held after it ends, backward"
    )
    assert {repository.named(name): answer for name, answer in answered(commits).items()} == {
        "<Release 1.0.0>": "good",
        "<Gather weights later>": "good",
        "<Follow torch's new names>": "unknown",
        "<Keep what is gathered>": "bad",
        "<Release 1.1.0>": "bad",
    }
    assert commits["files"] == ["+1 -1 CHANGES", "+1 -1 tinyframe/_release.py"]
    stacks = {probe["stack"] for probe in commits["probes"]}
    sha = repository.hashes["Keep what is gathered"]
    assert any(stack.endswith(f"-tinyframe1.0.0+g{sha[:12]}") for stack in stacks)


def test_the_commit_that_ended_it(project: Project, repository: Repository) -> None:
    newest = repository.hashes["Thank who reported it"]
    said, found = bisect(
        project, "--bad", "v1.1.0", "--good", newest, "--fixed", "--repository", str(repository.folder)
    )
    assert said.code == 0
    assert repository.named(said.out).splitlines()[0] == (
        "tinyframe <Let go of what was gathered> is the first good commit: device memory held after it ends, backward"
    )
    assert "2026-01-09 Let go of what was gathered" in said.out
    assert said.out.split("\n\n")[4] == (
        "The change itself\n"
        "  CHANGES\n"
        "  @@ -1 +1 @@\n"
        "  -7: Name the hook\n"
        "  +8: Let go of what was gathered\n"
        "  tinyframe/_release.py\n"
        "  @@ -1 +1 @@\n"
        '  -BEHAVIOUR = "hungry"\n'
        '  +BEHAVIOUR = "good"'
    )
    _, found = bisect(project, "--bad", "v1.1.0", "--good", newest, "--fixed", "--repository", str(repository.folder))
    assert found["courses"][0]["runs"] == 0


def test_gits_own_bisection_finds_the_commit(project: Project, repository: Repository, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    history.git(tmp_path, "clone", "--quiet", str(repository.folder), str(clone))
    history.git(clone, "bisect", "start", "v1.1.0", "v1.0.0")
    step = [sys.executable, "-m", "dsregress", "bisect-step", "--project", str(project.folder)]
    step += ["--good", GOOD, "--bad", HUNGRY, "--scenario", "fit", "--metric", "backward.device_retained_bytes"]
    done = subprocess.run(
        ["git", "bisect", "run", *step],
        cwd=clone,
        env=project.variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    said = repository.named(done.stdout)
    assert "The first bad commit could be any of" in said  # one of two does not import, as git says it
    assert {subject for subject, sha in repository.hashes.items() if sha in done.stdout.splitlines()} == {
        "Follow torch's new names",
        "Keep what is gathered",
    }
    assert (
        "<Keep what is gathered> (2026-01-05 Keep what is gathered): bad, backward.device_retained_bytes: 23.4 KiB"
        in said
    )


@pytest.mark.parametrize(
    ("subject", "code"), [("Gather weights later", 0), ("Keep what is gathered", 1), ("Follow torch's new names", 125)]
)
def test_a_step_exits_as_git_wants_it(
    project: Project, repository: Repository, tmp_path: Path, subject: str, code: int
) -> None:
    clone = tmp_path / "clone"
    history.git(tmp_path, "clone", "--quiet", str(repository.folder), str(clone))
    history.git(clone, "checkout", "--quiet", repository.hashes[subject])
    arguments = ("--repository", str(clone), "--good", GOOD, "--bad", HUNGRY, "--scenario", "fit")
    assert project.run("bisect-step", *arguments, "--metric", "backward.device_retained_bytes").code == code


@pytest.mark.parametrize(
    "arguments", [["--god", GOOD], ["--good", GOOD, "--bad", "7.0.0"], ["--good", GOOD, "--bad", GOOD]]
)
def test_a_step_that_is_called_wrongly_ends_gits_bisection_instead_of_blaming_a_commit(
    project: Project, arguments: list[str]
) -> None:
    assert project.run("bisect-step", "--scenario", "fit", *arguments).code == 128
