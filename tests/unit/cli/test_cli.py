"""What a person types and gets back: text, files, exit codes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from dsregress import cli
from dsregress.cli import signals
from dsregress.cli.progress import Estimate, duration_text
from dsregress.cli.stored_results import baseline_stack, most_common, stack_id, stack_ids
from dsregress.envs import hardware
from dsregress.envs.installer import Installer
from dsregress.envs.recipe import CpuBuilds
from dsregress.errors import UsageError
from dsregress.model import Cell, Failed, Result
from dsregress.probe.border.wire import Detail
from dsregress.run.eta import GUESSED_IMPORT_S
from dsregress.store import Store
from tests.builders.cells import cell
from tests.builders.synthetic import stored_result as result

DETAIL = Detail(configuration={"zero_stage": 3})
PYPROJECT = """
[tool.dsregress]
baseline = "0.15.0"
select = ["tiny/base/cpu"]
[tool.dsregress.stack]
torch = "2.13.0"
deepspeed = ["0.15.0", "0.16.4"]
"""
SCENARIO = """
from dsregress.probe.scenario import Scenario
SCENARIO = Scenario(version=1, summary="A tiny one.", framework="frames.adapter", parameters={"zero_stage": 3},
                    devices={"cpu": {}},
                    variants=({}, {"zero_stage": 2}))
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "tiny.py").write_text(SCENARIO)
    for variable in ("DSREGRESS_RESULTS", "DSREGRESS_ENVIRONMENTS", "DSREGRESS_DEBUG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(Installer, "cpu_builds", lambda *of: CpuBuilds(requirements={"torch": "torch==2.13.0+cpu"}))
    monkeypatch.setattr(Installer, "cache_folder", tmp_path / "uv")
    monkeypatch.setattr(hardware, "has_gpu", lambda: False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class CommandResult:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


RunCommand = Callable[..., CommandResult]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> RunCommand:
    def call(*arguments: str) -> CommandResult:
        with pytest.raises(SystemExit) as caught:
            cli.run_command_line(arguments)
        captured = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return CommandResult(caught.value.code, captured.out, captured.err)

    return call


def of(version: str, **fields: object) -> Result:
    one = result(**fields)  # type: ignore[arg-type]
    return msgspec.structs.replace(
        one,
        cell=msgspec.structs.replace(
            one.cell, stack=msgspec.structs.replace(one.cell.stack, versions={"deepspeed": version})
        ),
    )


@pytest.mark.parametrize("command", [[], *([name] for name in cli.COMMANDS)])
def test_every_command_explains_itself(say: RunCommand, command: list[str]) -> None:
    told = say(*command, "--help")
    assert (told.code, told.err) == (0, "")
    assert "Usage: dsregress" in told.out


def test_no_command_is_its_help_and_no_pass(say: RunCommand) -> None:
    told = say()
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("Usage: dsregress [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["regress", "--scenario", "tony"], "dsregress: error: no such scenario: tony; did you mean tiny?\n"),
        (
            ["regress", "--deepspeed", "0.16.4", "--fail-on", "memory, memroy", "--dry-run"],
            "error: --fail-on: unknown kind of finding: memroy; there are: memory, time, numerics, crash; or none\n",
        ),
        (["compare", "0.15.0", "9.9.9"], "no results for 0.15.0"),
        (["regress", "--rounds", "-1"], "Invalid value for '--rounds'"),
        (["regress", "--rounds", "1" + "0" * 20], "Invalid value for '--rounds'"),
        (["regress", "--timeout", "inf"], "command line: timeout_s is not above 0, and at most 2,592,000 (30 days)"),
        (["regress", "--timeout", "nan"], "command line: timeout_s is not above 0, and at most 2,592,000 (30 days)"),
        (["fit", "tiny", "--gpu", "H200", "--overhead", "inf"], "Invalid value for '--overhead'"),
        (["fit", "tiny", "--gpu", "H200", "--overhead", "nan"], "Invalid value for '--overhead'"),
        (["fit", "tiny", "--gpu", "H200", "--network", "nan"], "Invalid value for '--network'"),
        (["fit", "tiny", "--gpu", "H200", "--max-layers", "0"], "Invalid value for '--max-layers'"),
        (["fit", "tiny", "--gpu", "H200", "--max-layers", "1000000000"], "Invalid value for '--max-layers'"),
        (["remedies", "tiny", "--ranks", "1" + "0" * 20], "Invalid value for '--ranks'"),
        (["bisect", "--scenario", "tiny", "--most-rounds", "1" + "0" * 20], "Invalid value for '--most-rounds'"),
        (
            ["recommend", "--program", "python x.py", "--tiny"],
            "No such option '--tiny'; `dsregress recommend --help` says",
        ),
        (
            ["upgrade", "--from", "x", "--program", "python x.py", "--steps", "2"],
            "error: No such option '--steps'. (Did you mean one of: '--help', '--set'?)\n",
        ),
        (["diagnose", "x", "--program", "python x.py", "--rank", "1"], "No such option '--rank'"),
        (["stacks", "--by-scenario"], "error: command line: --by-scenario needs --json; add --json -"),
        (["stacks", "--scenario", "t*", "--json", "-"], "--scenario needs --by-scenario; give both"),
        (["regres"], "error: No such command 'regres'. Did you mean 'regress'?\n"),
        (["nonsense"], "error: No such command 'nonsense'; `dsregress --help` says what it takes\n"),
        (
            ["regress", "--deepspeed", ""],
            "error: --deepspeed: empty; give it a value or omit it; perhaps a shell variable is unset",
        ),
        (["regress", "--torch="], "error: --torch: empty; "),
        (["regress", "--scenario", "tiny", "--variant", ""], "error: --variant: empty; "),
        (["report", "--baseline", ""], "error: --baseline: empty; "),
        (["remedies", ""], "error: empty; give it a value"),
        (["regress", "--deepspeed", "0.16.4,"], "deepspeed: '0.16.4,' has an empty item"),
        (["regress", "--deepspeed", " "], "deepspeed: ' ' has an empty item"),
        (["regress", "--executor", "docker", "--dry-run"], ""),
    ],
)
def test_a_wrong_call_is_exit_code_2_and_one_line(say: RunCommand, arguments: list[str], line: str) -> None:
    told = say(*arguments)
    if line:
        assert told.code == 2
        assert line in told.err
        assert "Traceback" not in told.err


def test_what_was_typed_is_text_too(say: RunCommand) -> None:
    told = say("\x1b[2J::error::x").err
    assert ":\\x3aerror::x'; " in told
    assert "\x1b" not in told


def test_a_signal_that_comes_while_an_error_is_said_is_an_interruption(
    say: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(words: list[str]) -> int:
        raise signals.Interrupted(signal.SIGTERM)

    monkeypatch.setattr(cli, "_exit_code_of_call", late)
    assert say("scenarios").code == 143


@pytest.mark.parametrize("error", [EOFError("a file ends"), BrokenPipeError(32, "Broken pipe"), SystemExit(0)])
def test_what_click_takes_for_ctrl_c_or_a_verdict_is_a_fault_of_ours(
    say: RunCommand, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def failing(**overrides: object) -> None:
        raise error

    monkeypatch.setattr("dsregress.cli.options.load_settings", failing)
    told = say("scenarios")
    assert (told.code, told.out) == (3, "")
    assert told.err.startswith(f"dsregress: error: a fault of the harness itself: {type(error).__name__}: ")


def test_nothing_stored_is_exit_code_4(say: RunCommand) -> None:
    told = say("report")
    assert told.code == 4
    assert "no results; `dsregress regress` measures some" in told.err


def test_a_full_disk_wherever_we_write_is_no_fault_of_ours(say: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**overrides: object) -> None:
        raise OSError(28, "No space left on device", "/tmp/x")

    monkeypatch.setattr("dsregress.cli.options.load_settings", full)
    told = say("scenarios")
    assert told.code == 3
    assert told.err == (
        "dsregress: error: the disk is full: [Errno 28] No space left on device: '/tmp/x'; free some space, then run the "
        "same command again\n"
    )


def test_a_fault_of_ours_is_exit_code_3_and_says_how_to_see_it(
    say: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**overrides: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("dsregress.cli.options.load_settings", broken)
    told = say("scenarios")
    assert told.code == 3
    assert told.err == (
        "dsregress: error: a fault of the harness itself: ZeroDivisionError: division by zero; --debug shows where\n"
    )
    assert "Traceback" in say("--debug", "scenarios").err
    assert "Traceback" in say("scenarios", "--debug").err


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_takes_debug_before_its_name_and_after_it(say: RunCommand, command: str) -> None:
    assert say("--debug", command, "--help").code == say(command, "--debug", "--help").code == 0
    assert say(command, "--debugg", "--help").code in (2, cli.EXIT_ENDS_GIT_BISECT)


def test_the_value_of_an_option_is_no_option(say: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**overrides: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("dsregress.cli.options.load_settings", broken)
    assert "Traceback" not in say("report", "--markdown", "--debug").err


def test_an_argument_that_is_called_as_another_command_changes_no_exit_code(say: RunCommand) -> None:
    assert say("report", "nofolder").code == say("report", "bisect-step").code == 2
    assert say("bisect-step", "--nonsense").code == say("--debug", "bisect-step", "--nonsense").code == 128


def test_an_interruption_is_exit_code_130_and_says_how_to_go_on(
    say: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(**overrides: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dsregress.cli.options.load_settings", interrupted)
    told = say("scenarios")
    assert told.code == 130
    assert "run the same command to continue" in told.err


def test_scenarios_are_listed_with_their_variants(say: RunCommand) -> None:
    assert say("scenarios").out == "tiny (version 1, on cpu)\n    A tiny one.\n    base\n    zero_stage=2\n"


def test_a_dry_run_prints_the_cells_and_starts_nothing(say: RunCommand, project: Path) -> None:
    told = say("regress", "--dry-run")
    assert told.code == 0
    assert [line.rpartition("deepspeed")[2] for line in told.out.splitlines()[:2]] == [
        "0.15.0/tiny/base/cpu",
        "0.16.4/tiny/base/cpu",
    ]
    assert "2 cells on 2 stacks, about 34 s including builds" in told.out
    assert "(a guess for the 2 that never ran here)" in told.out
    assert told.out.splitlines()[-1] == ("2 environments to build: about 979 MiB of disk, and 866 MiB in uv's cache")
    assert sorted(path.name for path in project.iterdir()) == ["pyproject.toml", "scenarios"]


def test_a_matrix_is_json_for_ci(say: RunCommand) -> None:
    lines = say("stacks", "--json", "-").out.splitlines()
    (include,) = (json.loads(line)["include"] for line in lines)
    assert [(job["deepspeed"], job["baseline"]) for job in include] == [("0.15.0", True), ("0.16.4", False)]
    include = json.loads(say("stacks", "--json", "-", "--by-scenario").out)["include"]
    assert [(job["deepspeed"], job["scenario"]) for job in include] == [("0.15.0", "tiny"), ("0.16.4", "tiny")]
    missing = say("stacks", "--json", "-", "--by-scenario", "--scenario", "llama*")
    assert (missing.code, json.loads(missing.out)["error"]["what"]) == (2, "no scenario matches llama*")
    assert "no scenario matches llama*" in missing.err


def test_stored_results_are_compared_and_written_as_json(say: RunCommand, project: Path) -> None:
    store = Store(str(project / "results"))
    store.write(of("0.15.0"))
    store.write(of("0.16.4", outcome=Failed(stage="backward", signature="RuntimeError: no")))
    told = say("compare", "0.15.0", "0.16.4", "--json", "out.json")
    assert told.code == 1
    written = json.loads((project / "out.json").read_text())
    assert [found["kind"] for found in written["findings"]] == ["failed"]
    assert say("compare", "0.15.0", "0.16.4", "--fail-on", "memory").code != 1


@pytest.mark.parametrize("option", ["--json=taken", "--markdown=taken", "--export=junit=taken"])
def test_a_folder_in_the_place_of_a_file_is_said_before_anything_is_measured(
    say: RunCommand, project: Path, option: str
) -> None:
    (project / "taken").mkdir()
    told = say("regress", option)
    assert told.code == 2
    assert "File 'taken' is a directory" in told.err


def test_a_selection_that_is_called_as_a_stack_runs_on_it_unless_another_is_named(
    say: RunCommand, project: Path
) -> None:
    file = project / "pyproject.toml"
    file.write_text(
        file.read_text() + '\n[tool.dsregress.selections]\nold = ["tiny/*/cpu"]\n'
        '[tool.dsregress.stacks]\nold = {torch = "2.5.1"}\nolder = {torch = "2.4.1"}\n'
    )
    assert "-torch2.5.1-" in say("regress", "--select", "old", "--dry-run").out
    assert "-torch2.5.1-" in say("regress", "--select", "old", "--deepspeed", "0.16.4", "--dry-run").out
    assert "-torch2.4.1-" in say("regress", "--select", "old", "--stack", "older", "--dry-run").out


def test_of_several_selections_all_are_run_unless_they_run_on_different_stacks(say: RunCommand, project: Path) -> None:
    file = project / "pyproject.toml"
    file.write_text(
        file.read_text()
        + '\n[tool.dsregress.selections]\nold = ["tiny/*/cpu"]\nfirst = ["tiny/*/cpu"]\nsecond = ["tiny/*/sim"]\n'
        '[tool.dsregress.stacks]\nold = {torch = "2.5.1"}\n'
    )
    both = say("regress", "--select", "first", "--select", "second", "--dry-run").out
    assert "/cpu" in both
    assert "/sim" in both
    refused = say("regress", "--select", "first", "--select", "old", "--dry-run")
    assert refused.code == 2
    assert refused.err.splitlines()[-1] == (
        "dsregress: error: --select: first and old run on different stacks; give --stack, or run one after the other"
    )
    assert "-torch2.5.1-" in say("regress", "--select", "first", "--select", "old", "--stack", "old", "--dry-run").out


def test_the_results_of_several_jobs_become_one_report(say: RunCommand, project: Path) -> None:
    Store(str(project / "one")).write(of("0.15.0"))
    Store(str(project / "two")).write(of("0.16.4", outcome=Failed(stage="init", signature="x")))
    told = say("report", "one", "two", "--json", "-")
    assert told.code == 1
    assert len(json.loads(told.out)["cells"]) == 2


def test_results_without_the_configured_baseline_are_reported_and_the_report_says_with_what(
    say: RunCommand, project: Path
) -> None:
    for version in ("0.17.0", "0.16.4"):
        Store(str(project / "one")).write(of(version))
    said = say("report", "one", "--json", "-")
    first = of("0.16.4").cell.stack.id
    assert json.loads(said.out)["baseline"] == first
    assert (
        f"there are no results for 0.15.0, the configured baseline; comparing with {first}; use --baseline to choose"
        in said.err
    )
    assert say("report", "one", "--baseline", "0.15.0").code == 2


def test_a_folder_becomes_a_bundle_that_reports_the_same(say: RunCommand, project: Path) -> None:
    for version in ("0.15.0", "0.16.4"):
        Store(str(project / "mine")).write(of(version))
    made = say("bundle", "mine/")
    assert (made.code, made.err) == (0, "")
    assert made.out.startswith("mine.jsonl.gz: 2 results; ")
    from_bundle, from_folder = (say("report", name, "--json", "-") for name in ("mine.jsonl.gz", "mine"))
    assert (from_bundle.code, from_bundle.out) == (from_folder.code, from_folder.out)
    again = say("bundle", "mine")
    assert (again.code, "mine.jsonl.gz: already exists; move it away" in again.err) == (2, True)
    assert say("compare", "0.15.0", "0.16.4", "--results", "absent.jsonl.gz").code == 2


def test_a_bundle_becomes_the_folder_that_it_was_made_from(say: RunCommand, project: Path) -> None:
    for version in ("0.15.0", "0.16.4"):
        Store(str(project / "mine")).write(of(version), DETAIL, {"benchmarks": []})
    say("bundle", "mine", "--output", "run.jsonl.gz")
    made = say("bundle", "--unpack", "run.jsonl.gz")
    assert (made.code, made.out, made.err) == (0, "run: 5 files written, 0 already there\n", "")
    folders = [
        {
            file.relative_to(project / name): file.read_bytes().strip()
            for file in (project / name).rglob("*")
            if file.is_file()
        }
        for name in ("mine", "run")
    ]
    assert folders[0] == folders[1]
    say("bundle", "run", "--output", "again.jsonl.gz")
    assert (project / "again.jsonl.gz").read_bytes() == (project / "run.jsonl.gz").read_bytes()
    (changed, *_) = sorted((project / "run").glob("py*/*/*"))
    changed.write_text("mine")
    again = say("bundle", "--unpack", "run.jsonl.gz")
    assert again.out == "run: 0 files written, 4 already there\n"
    assert again.err.endswith(": already exists with different content\n")
    assert changed.read_text() == "mine"
    assert say("bundle", "run.jsonl.gz").err.endswith("`--unpack` makes one of a bundle\n")
    assert say("bundle", "--unpack", "mine").code == 2
    told = say("regress", "--scenario", "tiny", "--results", "run.jsonl.gz")
    assert (told.code, told.out) == (3, "")
    assert "run.jsonl.gz: a bundle is read-only; unpack it with `bundle --unpack`" in told.err


def test_a_damaged_result_is_named_and_the_rest_reported(say: RunCommand, project: Path) -> None:
    store = Store(str(project / "results"))
    store.write(of("0.15.0"))
    file = Path(store.write(of("0.16.4")))
    file.write_bytes(file.read_bytes()[:100])
    told = say("show")
    assert told.code == 0
    assert told.err.startswith("dsregress: left out: results/py3.11-deepspeed0.16.4/llama/base-cpu-")
    assert "deepspeed0.15.0" in told.out


def test_show_prints_foreign_text_and_no_markup_and_no_escapes(say: RunCommand, project: Path) -> None:
    hostile = Failed(stage="init", signature="[bold]x[/bold] [/nothing] \x1b[2J\u202e##[error]y")
    Store(str(project / "results")).write(of("0.15.0", outcome=hostile))
    told = say("show")
    assert (told.code, told.err) == (0, "")
    assert "failed in init: [bold]x[/bold] [/nothing] \\u202e#\\x23[error]y\n" in told.out


def test_a_report_that_cannot_be_written_is_one_line(say: RunCommand, project: Path) -> None:
    Store(str(project / "results")).write(of("0.15.0"))
    told = say("report", "--markdown", "absent/report.md")
    assert told.code == 3
    assert told.err.count("\n") == 1


KNOWN = [
    "py3.11-torch2.12.0-deepspeed0.16.4",
    "py3.11-torch2.13.0-deepspeed0.15.0",
    "py3.11-torch2.13.0-deepspeed0.16.4",
]


def test_a_version_means_the_stack_that_is_like_the_baseline() -> None:
    assert stack_id("0.15.0", "deepspeed", KNOWN) == KNOWN[1]
    assert stack_id("0.16.4", "deepspeed", KNOWN, like=KNOWN[1]) == KNOWN[2]
    assert stack_id(KNOWN[0], "deepspeed", KNOWN) == KNOWN[0]
    assert stack_id("torch==2.12.0", "deepspeed", KNOWN) == stack_id("2.12.0", "deepspeed", KNOWN) == KNOWN[0]
    assert stack_id("2.13.0", "deepspeed", KNOWN, like=KNOWN[0]) == KNOWN[2]
    with pytest.raises(
        UsageError, match="1.0 may be a version of accelerate or peft; write accelerate==1.0 or peft==1.0"
    ):
        stack_id("1.0", "deepspeed", ["py3.11-accelerate1.0-deepspeed0.15.0", "py3.11-peft1.0-deepspeed0.15.0"])
    assert stack_id("deepspeed==0.15.0", "deepspeed", KNOWN) == KNOWN[1]
    with pytest.raises(UsageError, match="no results for 2.11.0"):
        stack_id("torch==2.11.0", "deepspeed", KNOWN)
    with pytest.raises(UsageError, match="0.16.4 matches 2 stacks"):
        stack_id("0.16.4", "deepspeed", KNOWN)
    with pytest.raises(UsageError, match="no results for 0.16.5; did you mean"):
        stack_id("0.16.5", "deepspeed", KNOWN)


def test_what_was_added_to_a_stack_is_written_behind_its_version() -> None:
    known = [
        f"py3.11-torch2.13.0-deepspeed{version}{trl}" for version in ("0.16.0", "0.16.4") for trl in ("", "-trl0.24.0")
    ]
    assert stack_id("0.16.4 + trl 0.24.0", "deepspeed", known) == known[3]
    assert stack_id("0.16.4", "deepspeed", known) == known[2]
    assert stack_ids(["0.16.0", "0.16.4 + trl 0.24.0"], "deepspeed", known) == [known[1], known[3]]
    assert stack_ids(["0.16.0", "0.16.4"], "deepspeed", known) == [known[0], known[2]]
    assert stack_ids([known[1], "0.16.4"], "deepspeed", known) == [known[1], known[3]]
    with pytest.raises(UsageError, match=r"no results for 0\.16\.4 \+ trl 0\.23\.0"):
        stack_id("0.16.4 + trl 0.23.0", "deepspeed", known)


def test_time_left_is_what_was_expected_at_the_pace_seen_so_far() -> None:
    importing = GUESSED_IMPORT_S  # of each of two stacks
    first, second = ([msgspec.structs.replace(cell(v), variant=variant) for v in "AB"] for variant in ("x", "y"))
    estimate = Estimate([*first, *second], {first[0].workload: 10.0, second[0].workload: 20.0})
    assert estimate.left_s(0) == 60 + 2 * importing
    for one in first:
        estimate.started(one)
    passed(estimate, first[0], 10.0)  # of two that go in turns: says nothing about the pace yet
    assert estimate.left_s(10.0) == 50 + 2 * importing
    passed(estimate, first[1], 2 * (20 + 2 * importing))  # twice as long as expected; both are imported now
    assert estimate.left_s(2 * (20 + 2 * importing)) == 80
    for one in second:
        passed(estimate, one, 150.0)
    assert estimate.left_s(150.0) == 0


def alone(*versions: str) -> list[Cell]:
    """Cells of one workload, each of which ends by itself."""
    return [msgspec.structs.replace(cell(version), device="sim") for version in versions]


def passed(estimate: Estimate, one: Cell, elapsed_s: float, took_s: float = 10.0) -> None:
    estimate.finished(one, elapsed_s, took_s=took_s, passed=True)


def test_a_cell_that_goes_alone_says_what_the_others_of_its_workload_will_take() -> None:
    cells = alone("A", "B")
    estimate = Estimate(cells, {cells[0].workload: 10.0})
    passed(estimate, cells[0], 3 * (10 + GUESSED_IMPORT_S))
    assert estimate.left_s(3 * (10 + GUESSED_IMPORT_S)) == 3 * (10 + GUESSED_IMPORT_S)


def test_what_nothing_is_known_of_has_no_time_left_until_the_first_has_passed() -> None:
    cells = alone("A", "B", "C")
    estimate = Estimate(cells, {})
    assert estimate.left_s(0) is None
    estimate.finished(cells[0], 5.0, took_s=5.0, passed=False)
    assert estimate.left_s(5.0) is None
    passed(estimate, cells[1], 2 * (5 + 300 + GUESSED_IMPORT_S), took_s=300.0)
    assert estimate.left_s(2 * (5 + 300 + GUESSED_IMPORT_S)) == 2 * (300 + GUESSED_IMPORT_S)


def test_cells_that_fail_at_once_do_not_make_the_others_fast() -> None:
    cells = alone("A", "B", "C")
    estimate = Estimate(cells, {cells[0].workload: 100.0})
    estimate.finished(cells[0], 0.0, took_s=0.0, passed=False)  # its environment cannot be built
    assert estimate.left_s(0.0) == 2 * (100 + GUESSED_IMPORT_S)
    estimate.finished(cells[1], 2.0, took_s=2.0, passed=False)  # it does not import
    assert estimate.left_s(2.0) == 100 + GUESSED_IMPORT_S


def test_a_cell_that_takes_longer_than_expected_has_no_time_left_that_is_known() -> None:
    cells = alone("A", "B")
    estimate = Estimate(cells, {cells[0].workload: 10.0})
    estimate.started(cells[0])
    assert estimate.left_s(1000.0) == 10 + GUESSED_IMPORT_S  # of the other one
    estimate.started(cells[1])
    assert estimate.left_s(1000.0) is None


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (200, "3 min 20 s"), (3900, "1 h 5 min")])
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_without_the_configured_baseline_a_report_begins_at_the_oldest_of_the_longest_series() -> None:
    def known(*pins: str) -> list[str]:
        return [f"py3.11-torch2.13.0-{pin}" for pin in pins]

    def chosen(stacks: list[str]) -> str:
        return baseline_stack(None, "0.15.0", "deepspeed", stacks, like=most_common(stacks, "deepspeed"))

    by_deepspeed = known("deepspeed0.9.5", "deepspeed0.16.4", "deepspeed0.10.0", "deepspeed0.16.4-trl0.24.0")
    assert chosen(by_deepspeed) == by_deepspeed[0]
    by_trl = known("deepspeed0.19.8-trl0.10.0", "deepspeed0.19.8-trl0.7.1", "deepspeed0.18.9")
    assert chosen(by_trl) == by_trl[1]
    assert chosen(["mine"]) == "mine"
