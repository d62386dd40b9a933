"""What cannot work is said in one line that names what, where and what to do; nothing that was measured is lost."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.builders.edits import resealed
from tests.offline.project import GOOD, LIMIT_S, VERSION, CommandResult, Project, cell, stack, stored


def said_once(said: CommandResult, code: int, line: str) -> None:
    """Exit code, nothing on stdout, and this line alone on stderr."""
    assert (said.code, said.out, said.err) == (code, "", f"dsregress: error: {line}\n")


# --- the call and the configuration -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--scenario", "fot"], "no such scenario: fot; did you mean fit?"),
        (
            ["--scenario", "fit", "--variant", "gradient_accumulation_steps=*9"],
            "fit: no such variant: gradient_accumulation_steps=*9; did you mean gradient_accumulation_steps=3?",
        ),
        (
            ["--scenario", "fit", "--variant", "zero_stage=2"],
            "fit: no such variant: zero_stage=2 ('zero_stage' is not a parameter of this scenario); "
            "`dsregress scenarios` lists scenarios with their variants",
        ),
        (["--device", "tpu"], "no such device: tpu; there are: sim, cpu, cuda, auto"),
        (
            ["--with", "tinyframe=1.0.1"],
            "tinyframe: unknown release 1.0.1; nearest are 1.0.0, 1.1.0, 1.2.0; "
            "`pip index versions tinyframe` lists those of your indexes",
        ),
        (["--with", "=1.0"], "--with: not a package with its releases: '=1.0'; write PACKAGE or PACKAGE=SPEC"),
        (
            ["--with", "tinytrainr=1.0"],
            "package index: no configured index has a package 'tinytrainr'; check the name and pip config list",
        ),
        (
            ["--with", "tinytrainer=0.9"],
            "tinytrainer: unknown release 0.9; nearest are 1.0.0, 1.1.0; "
            "`pip index versions tinytrainer` lists those of your indexes",
        ),
        (
            ["--with", "tinytrainer=../tinytrainer"],
            "tinytrainer: '../tinytrainer' is a path or URL; releases are compared: put its wheel into a pip "
            "find-links folder and give its version",
        ),
        (["--with", "../x=1.0"], "stack: '../x' is not the name of a package; write e.g. trl"),
        (
            ["--with", "python=3.12"],
            'stack: python is not a package; all stacks share one interpreter; set python = "3.12" in [tool.dsregress]',
        ),
        (
            ["--with", "tinytrainer=1.0.0", "--with", "TinyTrainer==1.1.0"],
            "--with: tinytrainer is given twice; write all its versions in one option: tinytrainer=1.0.0,==1.1.0",
        ),
        (["--executor", "slurm"], "--executor: no such executor: slurm; use local or docker or ray"),
        (
            ["--timeout", "0"],
            "command line: timeout_s is not above 0, and at most 2,592,000 (30 days); give seconds, e.g. 180",
        ),
    ],
)
def test_a_call_that_asks_for_what_is_not_there_starts_nothing(
    project: Project, arguments: list[str], line: str
) -> None:
    said = project.run("regress", *arguments)
    said_once(said, 2, line.replace("PYPROJECT", str(project.folder / "pyproject.toml")))
    assert not project.results.exists()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[tool.dsregress\n", "not valid TOML: Expected "),
        ("[tool]\ndsregress = 3\n", "tool.dsregress is not a table; write [tool.dsregress]"),
        ("[tool.dsregress]\nround = 3\n", "[tool.dsregress]: no such key: round; did you mean rounds, warmup_rounds?"),
        ('[tool.dsregress]\nrounds = "many"\n', "[tool.dsregress] rounds: Expected int, got str; write it like 9"),
        (
            "[tool.dsregress.stack]\ntinyframe = 1.0\n",
            "[tool.dsregress] stack.tinyframe: Expected str | array, got float; "
            'write it like "0.16.4" or ["0.15.0", "0.16.*"]',
        ),
    ],
)
def test_a_malformed_pyproject_is_named_with_file_and_key(project: Project, text: str, line: str) -> None:
    file = project.folder / "pyproject.toml"
    file.write_text(text)
    said = project.run("regress")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"dsregress: error: {file}: {line}")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit\n", "SystemExit"),  # no pass
        ("import os; os._exit(0)\n", "ended with exit code 0"),
        ("import os; os.kill(os.getpid(), 11)\n", "killed by SIGSEGV"),
    ],
)
def test_a_scenario_that_does_not_load_is_named(project: Project, tmp_path: Path, code: str, error: str) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "fit.py").write_text(code)
    project.configure(GOOD, scenarios=str(folder))
    said_once(
        project.run("regress"),
        2,
        f"{folder}/fit.py: cannot be loaded: {error}; docs/add-a-scenario.md shows one that works",
    )


# --- the index and the environments -----------------------------------------------------------------------------------


@pytest.fixture
def nobody_listens() -> Iterator[str]:
    """The URL of an index that refuses connections: the port is taken, and nobody answers there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/simple"


def unreachable(project: Project, url: str) -> dict[str, str]:
    """Variables under which that index is the only one."""
    configuration = project.folder / "pip.conf"
    configuration.write_text(f"[global]\nindex-url = {url}\nretries = 0\n")
    return {"PIP_CONFIG_FILE": str(configuration), "UV_CACHE_DIR": str(project.folder / "uv")}


def test_a_release_that_is_not_known_and_no_index_to_ask(project: Project, nobody_listens: str) -> None:
    project.configure(GOOD, "1.0.7")
    said = project.run("regress", **unreachable(project, nobody_listens))
    said_once(
        said,
        3,
        "package index: no index responds for tinyframe: no package index can be reached (error sending request); "
        "check the network and pip config list; committed releases need no index",
    )
    assert not project.results.exists()


def on_an_empty_disk(project: Project) -> Project:
    """The project, whose command sees a terabyte of free disk: that of this machine is looked at before the index is."""
    code = "import collections, runpy, shutil\nUsage = collections.namedtuple('Usage', 'free')\n"
    code += "shutil.disk_usage = lambda folder: Usage(10**12)\n"
    code += "runpy.run_module('dsregress', run_name='__main__', alter_sys=True)"
    return dataclasses.replace(project, program=(sys.executable, "-c", code))


def test_an_environment_to_build_and_no_index_to_take_it_from(project: Project, nobody_listens: str) -> None:
    work = project.folder / "work"
    project.configure("0.15.0", environments=str(work), text='[tool.dsregress.stack]\ndeepspeed = ["0.15.0"]')
    file = project.folder / "pyproject.toml"
    file.write_text(file.read_text().replace('[tool.dsregress.stack]\ntinyframe = ["0.15.0"]\n', ""))
    said = on_an_empty_disk(project).run("regress", **unreachable(project, nobody_listens))
    assert (said.code, said.out) == (3, "")
    announced, error = said.err.splitlines()
    assert announced == "1 environment to build: about 5.33 GiB of disk, and 5.26 GiB in uv's cache"
    assert error.startswith("dsregress: error: installing into ")
    assert error.endswith("; check the network and pip's own configuration (pip config list)")
    assert "no package index can be reached" in error
    assert not project.results.exists() or project.results_files == []
    assert list((work / "envs").glob("*/dsregress.json")) == []  # nothing that looks whole


def test_what_is_known_and_built_needs_no_index(project: Project, nobody_listens: str) -> None:
    project.regress()
    unreached = unreachable(project, nobody_listens)
    assert project.run("report", **unreached).code == 1
    again = project.run("regress", **unreached)
    assert (again.code, again.err) == (1, "all 2 stored\n")


def test_environments_in_a_place_that_is_no_folder(project: Project, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = project.run("regress", DSREGRESS_ENVIRONMENTS=str(tmp_path / "file"))
    said_once(said, 3, f"{tmp_path}/file: cannot be written: it is a file where a folder is needed; move it away")


# --- the results folder -----------------------------------------------------------------------------------------------


def mounted(project: Project, options: str, *arguments: str) -> CommandResult:
    """Run a command with a file system of its own over the results folder; what that holds in the end is copied to
    ``kept``. Skips where this user may not mount."""
    if shutil.which("unshare") is None:
        pytest.skip("no `unshare` on this machine: a full or read-only disk cannot be made")
    project.results.mkdir(exist_ok=True)
    unshare = ["unshare", "--mount", "--map-root-user"]
    script = f'mount -t tmpfs -o {options} none "$0" || exit 99; "$@"; code=$?; cp -r "$0" kept; exit $code'
    command = [sys.executable, "-m", "dsregress", *arguments]
    done = subprocess.run(
        [*unshare, "sh", "-c", script, str(project.results), *command],
        cwd=project.folder,
        env=project.variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip(f"this user may not mount a file system: {done.stderr.strip()}")
    return CommandResult(done.returncode, done.stdout, done.stderr)


def test_a_read_only_results_folder_is_found_before_anything_is_measured(project: Project) -> None:
    said = mounted(project, "size=1m,ro", "regress")
    said_once(
        said,
        3,
        f"{project.results}: cannot be used for results: Read-only file system; choose another folder with --results",
    )


def bytes_taken_by_results(project: Project) -> int:
    """On a file system with pages of 4 KiB. They are removed."""
    taken = sum(-(-file.stat().st_size // 4096) * 4096 for file in project.results.rglob("*") if file.is_file())
    shutil.rmtree(project.results)
    return taken


def test_a_disk_with_room_for_the_results_only_leaves_the_explanations_out_of_the_report(project: Project) -> None:
    project.regress("--no-explain")
    said = mounted(project, f"size={bytes_taken_by_results(project)}", "regress")
    assert said.code == 1
    assert said.out.startswith("Of these releases, use tinyframe 1.0.0.\ntinyframe 1.0.0 to 1.1.0: ")
    (note,) = [line for line in said.err.splitlines() if "explanations" in line]
    assert note.startswith(f"memory explanations are missing: {project.results}/details/explained-")
    assert note.endswith(".json.gz: cannot be written: No space left on device; choose another folder with --results")


def test_a_disk_that_fills_up_keeps_what_was_stored_whole(project: Project) -> None:
    project.regress("--no-explain")
    said = mounted(project, f"size={bytes_taken_by_results(project) - 4096}", "regress", "--no-explain")
    assert (said.code, said.out) == (3, "")
    last = said.err.splitlines()[-1]
    assert last.startswith(f"dsregress: error: {project.results}/")
    assert "/fit/base-cpu-" in last
    assert last.endswith(
        ": cannot be used for results: No space left on device; "
        "free disk space, or choose another folder with --results"
    )
    kept = list((project.folder / "kept").rglob("*.json"))
    labels = [msgspec.json.decode(file.read_bytes())["cell"]["stack"]["label"] for file in kept]
    assert labels in ([GOOD], [VERSION["hungry"]])  # whichever ended first
    assert project.processes() == []


def test_results_under_a_file_are_one_line(project: Project, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said_once(
        project.run("regress", "--results", str(tmp_path / "file" / "results")),
        3,
        f"{tmp_path}/file: cannot be used for results: it is a file where a folder is needed; move it away",
    )


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[: len(data) // 3], "damaged, or not a result: "),
        (lambda data: b"", "damaged, or not a result: "),
        (lambda data: os.urandom(4096), "damaged, or not a result: "),
        (
            lambda data: data.replace(b'{"schema":2,', b'{"schema":99,', 1),
            "written by a newer version (schema 99, this one reads up to 2): update dsregress",
        ),
    ],
    ids=["cut off", "empty", "garbage", "newer schema"],
)
def test_a_result_that_cannot_be_read_is_reported_kept_and_measured_again(
    measured: Project, damage: object, why: str
) -> None:
    assert callable(damage)
    (file,) = (measured.results / stack(GOOD)).rglob("*.json")
    file.write_bytes(damage(file.read_bytes()))
    damaged = file.read_bytes()
    told = f"dsregress: left out: results/{file.relative_to(measured.results)}: {why}"

    said = measured.run("report", "--baseline", GOOD)
    assert said.err.startswith(told)
    assert [line.split(": ")[1] for line in said.err.splitlines()] == ["left out", "not measured"]

    report = measured.regress()
    assert "1 cell to run" in report.said.err
    assert why in report.said.err
    assert report.code == 1
    assert file.read_bytes() == damaged
    assert len(list((measured.results / stack(GOOD)).rglob("*.json"))) == 2


@pytest.fixture
def measured(project: Project, shared: Project) -> Project:
    """The project with results, which are measured once."""
    kept = shared.folder / "measured"
    if not kept.exists():
        project.regress()
        shutil.copytree(project.results, kept)
    shutil.copytree(kept, project.results, dirs_exist_ok=True)
    return project


@pytest.mark.parametrize("field", ["scenario", "variant", "device"])
def test_a_result_with_a_hostile_name_reaches_no_file_outside_the_folder(
    measured: Project, tmp_path: Path, field: str
) -> None:
    (file,) = (measured.results / stack(VERSION["hungry"])).rglob("*.json")
    data = file.read_bytes()
    value = {"scenario": b"fit", "variant": b"base", "device": b"cpu"}[field]
    hostile = data.replace(b'"%s":"%s"' % (field.encode(), value), b'"%s":"../../../escaped"' % field.encode(), 1)
    assert hostile != data
    file.with_name("base-cpu-000000000000.json").write_bytes(resealed(hostile))
    for command in (["report", "--baseline", GOOD], ["compare", GOOD, VERSION["hungry"]], ["show", "*"]):
        said = measured.run(*command)
        assert said.code in (0, 1), said.err
        assert "Traceback" not in said.err
    assert not list(tmp_path.rglob("*escaped*"))


def test_control_characters_in_a_result_do_not_reach_the_terminal(measured: Project) -> None:
    (file,) = (measured.results / stack(VERSION["hungry"])).rglob("*.json")
    data = file.read_bytes().replace(b'"label":"1.1.0"', b'"label":"\\u001b[31m1.1.0\\u0007"')
    file.write_bytes(resealed(data))
    for command in (["report", "--baseline", GOOD], ["show", "*"], ["stacks"]):
        said = measured.run(*command)
        assert "\x1b[31m" not in said.out + said.err
        assert "\x07" not in said.out + said.err


def test_a_report_with_no_results_is_no_pass(project: Project) -> None:
    said_once(project.run("report"), 4, f"{project.results}: no results; `dsregress regress` measures some")


def test_a_report_that_cannot_be_written_is_one_line_and_the_results_stay(project: Project, tmp_path: Path) -> None:
    said = project.run("regress", "--json", str(tmp_path / "nowhere" / "report.json"))
    assert said.code == 3
    assert said.err.splitlines()[-1] == (
        f"dsregress: error: {tmp_path}/nowhere/report.json: cannot be written: No such file or directory; "
        "give --json another place"
    )
    assert {result["outcome"]["type"] for result in stored(project)} == {"passed"}
    assert len(stored(project)) == 2


def test_show_prints_what_is_stored_of_a_cell(measured: Project) -> None:
    said = measured.run("show", cell(GOOD))
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"{cell(GOOD)}  passed\n")
