"""What the machine does to a run is no release's fault, and what was not measured is no pass: the exit code and the last
line say so, and the next run measures it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.builders.edits import forged, of_before
from tests.offline.project import GOOD, LIMIT_S, VERSION, CommandResult, Project, Report, cell, stack, stored
from tests.packages import build, history

#: Behaviour -> the release that has it.
FAULTY = {
    "good": "4.0.0",
    "full-disk": "4.1.0",
    "hungry": "4.1.9",
    "removing": "4.2.0",
    "leaking": "4.3.0",
    "killed": "4.4.0",
    "compiling": "4.5.0",
}

#: A release like the good one, whose wheel was cut off.
CUT_OFF = "4.9.0"

THREE = (GOOD, VERSION["new-default"], "2.0.0")


@pytest.fixture(scope="session")
def user(shared: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same user with more releases in their index."""
    place = tmp_path_factory.mktemp("machine")
    index = place / "index"
    shutil.copytree(shared.folder / "index", index)
    for behaviour, version in FAULTY.items():
        build.build(index, version, behaviour)
    build.build(index, CUT_OFF, "good")
    wheel = index / f"tinyframe-{CUT_OFF}-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes()[:-2000])
    configuration = place / "pip.conf"
    configuration.write_text(f"[global]\nno-index = true\nfind-links = {index}\n")
    variables = {**shared.variables, "PIP_CONFIG_FILE": str(configuration)}
    return Project(folder=place, variables=variables, work=shared.work)


@pytest.fixture
def project(user: Project, tmp_path: Path) -> Project:
    return Project(folder=tmp_path, variables=user.variables, work=user.work)


def last_line(said: CommandResult) -> str:
    return said.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("behaviour", "stage", "fault", "signature", "remedy"),
    [
        ("full-disk", "import", "the disk is full", "OSError: [Errno 28] No space left on device", "free some space"),
        ("compiling", "backward", "the disk is full", "CalledProcessError: Command", "free some space"),
        ("killed", "backward", "it was killed from outside", "killed by SIGKILL", "find out what ended it"),
    ],
)
def test_the_machines_fault_is_no_verdict_and_is_measured_again(
    project: Project, behaviour: str, stage: str, fault: str, signature: str, remedy: str
) -> None:
    version = FAULTY[behaviour]
    project.configure(GOOD, version, FAULTY["good"])
    report = project.regress()
    assert (report.code, report.json["exit_code"]) == (3, 3)
    found = report.cell(version)
    assert (found["outcome"], found["stage"]) == ("machine_fault", stage)
    assert found["signature"].startswith(signature)
    assert report.findings(version) == []
    assert report.cell(FAULTY["good"])["outcome"] == "passed"
    assert "not measured: " + version in report.said.out
    last = last_line(report.said)
    assert last.startswith(f"dsregress: not measured: {version} (fit/base/cpu): {fault} (in {stage}: {signature}")
    assert f"; {remedy}" in last
    assert last.endswith(", then measure again")

    again = project.regress("--fail-on", "none")
    assert "1 cell to run" in again.said.err
    assert "; 2 are stored already" in again.said.err
    assert again.code == 3
    assert project.run("report", "--baseline", GOOD).code == 3
    assert project.run("compare", GOOD, version).code == 3
    assert project.run("compare", GOOD, FAULTY["good"]).code == 0


def test_a_release_that_leaks_files_is_never_a_regression_and_never_passes(project: Project) -> None:
    project.configure(GOOD, FAULTY["leaking"])
    file = project.folder / "report.json"
    command = f"ulimit -n 256; exec {sys.executable} -m dsregress regress --json {file}"
    said = subprocess.run(
        ["bash", "-c", command], cwd=project.folder, env=project.variables, capture_output=True, text=True,
        timeout=LIMIT_S, check=False,
    )  # fmt: skip
    report = Report(CommandResult(said.returncode, said.stdout, said.stderr), msgspec.json.decode(file.read_bytes()))
    assert report.code == 3
    assert report.findings(FAULTY["leaking"]) == []
    assert "too many files are open" in last_line(report.said)
    assert "if it comes back for one release alone, that release leaks files" in last_line(report.said)


def test_a_failure_that_an_earlier_version_stored_for_a_full_disk_is_measured_anew(project: Project) -> None:
    """The issue's case: the disk was full, and is not any more."""
    good = FAULTY["good"]
    project.configure(GOOD, good)
    project.regress()
    (file,) = (project.results / stack(good)).rglob("*.json")
    failed = {"type": "failed", "stage": "import", "signature": "OSError: [Errno 28] No space left on device"}
    file.write_bytes(of_before(file.read_bytes(), lambda result: result.update(outcome=failed, record=None)))
    assert project.run("report", "--baseline", GOOD).code == 3

    again = project.regress()
    assert again.code == 0
    assert "1 cell to run" in again.said.err
    assert project.run("report", "--baseline", GOOD).code == 0


def test_a_wheel_that_was_cut_off_costs_its_stack_alone(project: Project, user: Project) -> None:
    project.configure(GOOD, CUT_OFF, FAULTY["good"])
    report = project.regress()
    assert report.code == 3
    assert report.findings(CUT_OFF) == []
    found = report.cell(CUT_OFF)
    assert (found["outcome"], found["stage"]) == ("machine_fault", "install")
    assert report.cell(FAULTY["good"])["outcome"] == "passed"
    assert f"not measured: {CUT_OFF} (fit/base/cpu): an installed or downloaded file is damaged" in last_line(
        report.said
    )

    wheel = user.folder / "index" / f"tinyframe-{CUT_OFF}-py3-none-any.whl"
    broken = wheel.read_bytes()
    build.build(user.folder / "index", CUT_OFF, "good")
    try:
        assert project.regress().code == 0
    finally:
        wheel.write_bytes(broken)


@pytest.mark.parametrize(
    ("bad", "metric", "ended", "fault"),
    [
        (
            FAULTY["hungry"],
            "backward.device_retained_bytes",
            FAULTY["full-disk"],
            "the disk is full (in import: OSError",
        ),
        (FAULTY["killed"], "outcome", FAULTY["killed"], "it was killed from outside (in backward: killed by SIGKILL)"),
    ],
    ids=["between", "at-an-end"],
)
def test_a_search_stops_where_the_machine_ended_a_run_and_goes_on_from_there(
    project: Project, bad: str, metric: str, ended: str, fault: str
) -> None:
    project.configure(GOOD)
    for _ in range(2):
        said = project.run("bisect", "--scenario", "fit", "--good", FAULTY["good"], "--bad", bad, "--metric", metric)
        assert (said.code, said.out) == (3, ""), said.err
        assert last_line(said).startswith(f"dsregress: error: {ended}: not measured: {fault}")
        assert last_line(said).endswith(", then run the same command again: it goes on from there")
    outcomes = Counter((r["cell"]["stack"]["versions"]["tinyframe"], r["outcome"]["type"]) for r in stored(project))
    assert outcomes[ended, "machine_fault"] == 2  # measured again by the second search
    assert outcomes[FAULTY["good"], "passed"] == 1


def test_a_commit_whose_run_the_machine_ended_ends_gits_bisection_and_is_not_skipped(
    project: Project, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    history.make(clone)
    (clone / "tinyframe" / "_release.py").write_text('BEHAVIOUR = "killed"\n')
    history.git(clone, "checkout", "--quiet", "v1.0.0", "--", "CHANGES")
    history.git(clone, "commit", "--quiet", "--all", "--message", "Killed by the machine")
    project.configure(GOOD)
    arguments = ("--repository", str(clone), "--good", GOOD, "--bad", VERSION["hungry"], "--scenario", "fit")
    said = project.run("bisect-step", *arguments, "--metric", "backward.device_retained_bytes")
    assert said.code == 128
    assert "not measured: it was killed from outside" in last_line(said)


def on_a_small_disk(project: Project, place: Path, size: str, *arguments: str) -> CommandResult:
    """Run a command with a disk of that size in a place."""
    place.mkdir(parents=True, exist_ok=True)
    script = f'mount -t tmpfs -o size={size} none "$0" || exit 99; exec "$@"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, str(place)]
    done = subprocess.run(
        [*command, sys.executable, "-m", "dsregress", *arguments], cwd=project.folder, env=project.variables,
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip(f"this user may not mount a file system: {done.stderr.strip()}")
    return CommandResult(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def _good_environments(user: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of the good releases: there before the disk is full."""
    project = Project(folder=tmp_path_factory.mktemp("building"), variables=user.variables, work=user.work)
    project.configure(GOOD, FAULTY["good"])
    assert [project.run("env", version).code for version in (GOOD, FAULTY["good"])] == [0, 0]


@pytest.mark.usefixtures("_good_environments")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="a full disk cannot be made without `unshare`")
@pytest.mark.parametrize("pages", [1, 2, 4, 6, 8, 10, 12])
def test_a_disk_that_is_full_where_ranks_write_blames_no_release(project: Project, pages: int) -> None:
    good = FAULTY["good"]
    project.configure(GOOD, good)
    said = on_a_small_disk(project, project.work / "runs", f"{4 * pages}k", "regress", "--no-explain")
    assert said.code in (0, 3), said.err
    outcomes = [result["outcome"]["type"] for result in stored(project)]
    assert set(outcomes) <= {"passed", "machine_fault"}
    if said.code == 3:
        assert "the disk is full" in last_line(said) or "No space left on device" in last_line(said)
        assert "space" in last_line(said)
    else:
        assert outcomes == ["passed", "passed"]
    after = project.regress()
    assert after.code == 0, after.said.err
    assert {after.cell(version)["outcome"] for version in (GOOD, good)} == {"passed"}


# --- no data is no pass -----------------------------------------------------------------------------------------------


def test_a_release_that_removes_the_ranks_files_has_not_passed(project: Project) -> None:
    version = FAULTY["removing"]
    project.configure(GOOD, version, rounds=2)
    report = project.regress()
    assert report.code == 3
    found = report.cell(version)
    assert (found["outcome"], found["stage"]) == ("failed", "harness")
    assert report.findings(version) == []
    assert last_line(report.said) == (
        f"dsregress: not measured: {version} (fit/base/cpu): the harness failed: rank 0 passed, and its measurements are "
        "gone: something removed or changed its file; measure again"
    )


def results_of(project: Project, version: str) -> Path:
    (file,) = (project.results / stack(version)).rglob("*.json")
    return file


def edit(file: Path, **fields: Any) -> None:
    file.write_bytes(forged(file.read_bytes(), lambda result: result.update(fields)))


@pytest.fixture(scope="module")
def three_measured(user: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of three releases, with nothing to find."""
    project = Project(folder=tmp_path_factory.mktemp("three"), variables=user.variables, work=user.work)
    project.configure(*THREE)
    assert project.regress("--fail-on", "none").code == 0
    return project.results


@pytest.fixture
def three(project: Project, three_measured: Path) -> Project:
    """A project that has measured them."""
    project.configure(*THREE)
    shutil.copytree(three_measured, project.results)
    return project


@pytest.mark.parametrize("version", [GOOD, "2.0.0"])
def test_a_failure_of_the_harness_on_one_of_three_is_no_pass(three: Project, version: str) -> None:
    edit(results_of(three, version), outcome={"type": "failed", "stage": "harness", "signature": "no record was left"})
    for arguments in (["report", "--baseline", GOOD], ["compare", GOOD, VERSION["new-default"], "2.0.0"]):
        said = three.run(*arguments)
        assert said.code == 3
        assert last_line(said).startswith(
            f"dsregress: not measured: {version} (fit/base/cpu): the harness failed: no record"
        )


@pytest.mark.parametrize("ranks", [[], [{"rank": 0}], [{"rank": 0, "phases": {}}, {"rank": 1}]])
def test_a_stored_pass_without_figures_is_measured_again(three: Project, ranks: list[Any]) -> None:
    file = results_of(three, "2.0.0")
    edit(file, record={**msgspec.json.decode(file.read_bytes())["record"], "ranks": ranks})
    said = three.run("report", "--baseline", GOOD)
    assert said.code == 3
    assert (
        "not measured: 2.0.0 (fit/base/cpu): the harness failed: it passed, but a rank reported no figures"
        in last_line(said)
    )
    again = three.regress("--fail-on", "none")
    assert "1 cell to run" in again.said.err
    assert again.code == 0


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 100])
@pytest.mark.parametrize("version", [GOOD, "2.0.0"])
def test_a_damaged_file_of_a_stack_is_no_pass(three: Project, version: str, content: bytes) -> None:
    results_of(three, version).write_bytes(content)
    for arguments in (["report", "--baseline", GOOD], ["compare", GOOD, "2.0.0"]):
        said = three.run(*arguments)
        assert said.code == 3
        assert last_line(said) == (
            f"dsregress: not measured: {stack(version)} (fit/base/cpu): its stored results cannot be read; measure again"
        )
    assert three.regress("--fail-on", "none").code == 0
    assert three.run("report", "--baseline", GOOD).code == 0  # another file has it now


def test_a_stack_whose_folder_is_empty_is_no_pass(three: Project) -> None:
    results_of(three, "2.0.0").unlink()
    said = three.run("compare", GOOD, "2.0.0")
    assert said.code == 3
    assert f"not measured: {stack('2.0.0')} (every workload): it has no stored results" in last_line(said)


def test_every_file_damaged_is_no_pass(three: Project) -> None:
    for version in THREE:
        results_of(three, version).write_bytes(b"")
    said = three.run("report", "--baseline", GOOD)
    assert said.code == 3
    assert all(stack(version) in last_line(said) for version in THREE)
    assert cell(GOOD) not in said.out


# --- what is damaged on the disk --------------------------------------------------------------------------------------


@pytest.fixture
def own_disk(project: Project) -> Project:
    """The project with environments and a cache of its own, in which two releases have been measured."""
    variables = {**project.variables, "UV_CACHE_DIR": str(project.folder / "uv")}
    own = Project(folder=project.folder, variables=variables, work=project.folder / "work")
    own.configure(GOOD, FAULTY["good"])
    assert own.regress().code == 0
    return own


def test_a_damaged_entry_of_uvs_cache_is_no_regression(own_disk: Project) -> None:
    (metadata,) = (own_disk.folder / "uv").glob(f"archive-v0/*/tinyframe-{FAULTY['good']}.dist-info/METADATA")
    metadata.write_bytes(b"")
    shutil.rmtree(own_disk.work / "envs")
    again = own_disk.regress("--fresh")
    assert again.code == 0, again.said.err
    assert (
        "tinyframe: damaged in uv's cache (The wheel is invalid: Metadata field Name not found): "
        "installed without the cache (uv cache clean tinyframe)"
    ) in again.said.err


def test_damaged_bytecode_that_all_environments_share_fails_no_release(own_disk: Project) -> None:
    compiled = sorted((own_disk.work / "bytecode").glob("pytest-*/_pytest/*.pyc"))
    assert len(compiled) > 10
    for file in compiled:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0x40
        file.write_bytes(content)
    again = own_disk.regress("--fresh")
    assert again.code == 0, again.said.err
    assert f" and {len(compiled) - 1} more: not what Python compiled; removed, to be compiled again" in again.said.err
    assert "not what Python compiled" not in own_disk.regress("--fresh").said.err
