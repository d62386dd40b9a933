"""Exit codes and verdicts of whole runs, and what a second run does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.offline.project import GOOD, SCENARIOS, VERSION, Project, Report, cell, stack, stored, without_times
from tests.paths import ROOT


def test_an_improvement_is_reported_and_is_no_regression(project: Project) -> None:
    project.configure(VERSION["hungry"], "2.0.0")
    report = project.regress()
    found = report.finding("2.0.0", metric="device_retained_bytes", phase="backward")
    assert (found["kind"], found["value"], found["baseline_value"]) == ("improvement", 16_000, 24_000)
    assert {f["kind"] for f in report.json["findings"] if f["relevant"]} == {"improvement"}
    assert report.code == 0


def test_a_changed_default_alone_does_not_fail(project: Project) -> None:
    project.configure(GOOD, VERSION["new-default"])
    report = project.regress()
    assert [f["kind"] for f in report.json["findings"]] == ["changed"]
    assert report.code == 0


def test_a_baseline_that_trains_wrong_is_found_though_nothing_differs_from_it(project: Project) -> None:
    project.configure(VERSION["wrong"])
    report = project.regress()
    assert {f["metric"] for f in report.findings(VERSION["wrong"], kind="wrong")} == {
        "loss_error",
        "gradient_norm_error",
        "parameter_error",
    }
    assert report.code == 1


def test_no_measurement_at_all_is_never_a_pass(project: Project) -> None:
    project.configure(VERSION["not-importing"], VERSION["crashing"])
    report = project.regress()
    assert [c["outcome"] for c in report.json["cells"]] == ["failed", "failed"]
    assert report.code == 4


def test_what_fails_is_chosen_by_the_caller(project: Project) -> None:
    assert project.regress().code == 1
    assert project.regress("--fail-on", "time,numerics,crash").code == 0
    assert project.regress("--fail-on", "none").code == 0


_SCENARIO = """from dsregress.probe.scenario import Scenario

from scenarios.families import VARIANTS

SCENARIO = Scenario(
    version=1,
    summary="tinyframe with a model",
    framework="tinyframe.adapter",
    parameters={"model": "small", "world_size": 1, "gradient_accumulation_steps": 1},
    devices={"cpu": {}},
    variants=VARIANTS,
)
"""


def _declare(folder: Path, *variants: dict[str, object], **shapes: dict[str, int]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").touch()
    (folder / "fit.py").write_text(_SCENARIO)
    (folder / "families.py").write_text(f"VARIANTS = {variants!r}\n")
    (folder / "models.py").write_text(f"SHAPES = {shapes!r}\n")


def test_one_more_variant_and_one_more_shape_leave_other_results_valid(project: Project) -> None:
    project.configure(GOOD, scenarios="scenarios", select=["fit/*/cpu"])
    _declare(project.folder / "scenarios", {}, small={"hidden_size": 8})
    first = project.regress().cell(GOOD)
    _declare(project.folder / "scenarios", {}, {"model": "large"}, small={"hidden_size": 8}, large={"hidden_size": 16})
    more = project.regress()
    assert more.cell(GOOD) == first
    assert more.cell(GOOD, "model=large")["session"] != first["session"]
    assert len(stored(project)) == 2


def test_another_shape_under_the_same_name_is_measured_anew(project: Project) -> None:
    project.configure(GOOD, scenarios="scenarios", select=["fit/*/cpu"])
    _declare(project.folder / "scenarios", {}, small={"hidden_size": 8})
    first = project.regress().cell(GOOD)
    _declare(project.folder / "scenarios", {}, small={"hidden_size": 16})
    assert project.regress().cell(GOOD)["session"] != first["session"]
    assert [result["cell"]["parameters"]["shape"]["hidden_size"] for result in stored(project)] in ([8, 16], [16, 8])


def test_a_second_run_executes_nothing_and_says_the_same(project: Project) -> None:
    first = project.regress()
    files = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in project.results.rglob("*.json")}
    second = project.regress()
    assert second.said.err == "all 2 stored\n"
    assert {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in project.results.rglob("*.json")} == files
    assert (second.code, second.json, second.said.out) == (first.code, first.json, first.said.out)


def test_a_fresh_run_measures_again_the_same_and_keeps_the_old(project: Project) -> None:
    project.configure(GOOD, VERSION["hungry"], VERSION["busy"], select=["fit/*/cpu"])
    first = project.regress()
    second = project.regress("--fresh")
    assert "6 cells to run" in second.said.err
    assert len(project.results_files) == 12
    assert {c["session"] for c in first.json["cells"]}.isdisjoint(c["session"] for c in second.json["cells"])
    assert without_times(second.json) == without_times(first.json)
    metrics = second.cell(GOOD, "gradient_accumulation_steps=3")["metrics"]
    assert metrics["forward.host_calls"] == 3 * second.cell(GOOD)["metrics"]["forward.host_calls"]


def test_a_release_measured_later_is_timed_beside_the_baseline_and_the_earlier_ones_keep_their_times(
    project: Project,
) -> None:
    project.configure(GOOD, VERSION["new-default"], rounds=6)
    project.regress()
    project.configure(GOOD, VERSION["new-default"], "2.0.0", rounds=6)
    report = project.regress()
    assert "2 cells to run" in report.said.err
    assert {time["stack"] for time in report.json["step_times"]} == {stack(VERSION["new-default"]), stack("2.0.0")}
    assert not [n for n in report.json["not_compared"] if "session" in n["reason"]]


def test_the_command_that_a_report_gives_measures_its_worst_cell_again(project: Project) -> None:
    first = project.regress("--details")
    command = first.said.out.split("To reproduce problem 1\n")[1].split()
    assert command[:2] == ["dsregress", "regress"]
    again = project.regress(*command[2:])
    assert again.findings(VERSION["hungry"]) == first.findings(VERSION["hungry"])
    assert "2 cells to run" in again.said.err


def test_a_dry_run_prints_the_cells_and_starts_nothing(project: Project, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    project.configure(GOOD, VERSION["hungry"], environments=str(nowhere))
    said = project.run("regress", "--dry-run")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        f"{cell(GOOD)}\n{cell(VERSION['hungry'])}\n"
        "2 cells on 2 stacks, about 34 s including builds, if no result is reused "
        "(a guess for the 2 that never ran here)\n"
        "2 environments to build of unknown size: not resolved yet\n"
    )
    assert not nowhere.exists()
    assert not project.results.exists()


def test_an_environment_is_built_on_request_and_scenarios_run_in_it_with_pytest_alone(project: Project) -> None:
    said = project.run("env", GOOD)
    assert (said.code, said.err) == (0, "")
    ran = subprocess.run(
        [said.out.strip(), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SCENARIOS)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": project.variables["PATH"], "HOME": project.variables["HOME"]},
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout
    assert "fit-gradient_accumulation_steps=3" in ran.stdout  # in pytest-benchmark's table


def test_pytest_alone_tells_of_wrong_numerics(project: Project) -> None:
    python = project.run("env", VERSION["wrong"]).out.strip()
    ran = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SCENARIOS), "-k", "base"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": project.variables["PATH"], "HOME": project.variables["HOME"]},
        check=False,
    )
    assert ran.returncode == 1
    assert "loss_error: 73286.9 tolerances from plain PyTorch" in ran.stdout


def test_a_report_on_several_folders_is_that_of_one(project: Project, tmp_path: Path) -> None:
    whole = project.regress()
    folders = []
    for version in (GOOD, VERSION["hungry"]):
        folders.append(tmp_path / version)
        folders[-1].mkdir()
        (project.results / stack(version)).rename(folders[-1] / stack(version))
    file = tmp_path / "merged.json"
    said = project.run("report", *map(str, folders), "--json", str(file))
    merged = Report(said, json.loads(file.read_bytes()))
    assert (merged.code, merged.json["findings"]) == (whole.code, whole.json["findings"])
