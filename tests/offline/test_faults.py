"""One run over releases with every fault: what is found, in which words, with which figures; the rest goes on."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.offline.project import GOOD, NOT_INSTALLING, VERSION, Project, Report, cell, stack, stored
from tests.packages.build import RELEASES
from tests.paths import ROOT

#: Bytes of the thousand weights, and so of whatever has as many numbers.
BLOCK = 8000


@pytest.fixture(scope="module")
def project(shared: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(folder=tmp_path_factory.mktemp("faults"), variables=shared.variables, work=shared.work)
    made.configure(*RELEASES, NOT_INSTALLING, rounds=2, timeout_s=4)
    return made


@pytest.fixture(scope="module")
def report(project: Project) -> Report:
    return project.regress("--markdown", str(project.folder / "report.md"))


def test_the_run_ends_with_the_code_of_a_regression(report: Report) -> None:
    assert (report.code, report.json["exit_code"]) == (1, 1)


def test_every_release_is_measured_or_says_why_not(report: Report) -> None:
    outcomes = {c["stack"]: (c["outcome"], c["stage"], c["signature"]) for c in report.json["cells"]}
    passed = ("passed", "", "")
    assert outcomes == {
        stack("1.0.0"): passed,
        stack("1.1.0"): passed,
        stack("1.2.0"): passed,
        stack("1.3.0"): (
            "failed",
            "backward",
            "RuntimeError: tensor at 0x... has no attribute 'ds_grads_remaining' (tinyframe/__init__.py:backward)",
        ),
        stack("1.4.0"): (
            "failed",
            "import",
            "ImportError: cannot import name 'inf' from 'torch._six' (tinyframe/__init__.py:<module>)",
        ),
        stack("1.5.0"): ("timed_out", "step", "no sign of life for 4 s"),
        stack("1.6.0"): ("failed", "backward", "killed by SIGSEGV"),
        stack("1.7.0"): ("out_of_memory", "backward", "out of memory"),
        stack("1.8.0"): passed,
        stack("1.9.0"): passed,
        stack("2.0.0"): passed,
        stack(NOT_INSTALLING): ("failed", "install", "build of tinyframe: RuntimeError: nvcc is missing"),
    }


def test_the_report_names_its_stacks(report: Report) -> None:
    assert report.json["schema"] == 2
    assert report.json["baseline"] == stack(GOOD)
    assert {(s["id"], s["versions"]["tinyframe"]) for s in report.json["stacks"]} == {
        (stack(version), version) for version in (*RELEASES, NOT_INSTALLING)
    }


def test_memory_is_counted_to_the_byte_in_every_phase(report: Report) -> None:
    def memory(version: str) -> dict[str, tuple[int, int]]:
        metrics = report.cell(version)["metrics"]
        return {
            phase: (metrics[f"{phase}.device_peak_bytes"] // BLOCK, metrics[f"{phase}.device_retained_bytes"] // BLOCK)
            for phase in ("init", "forward", "backward", "step")
            if metrics[f"{phase}.device_peak_bytes"] % BLOCK == metrics[f"{phase}.device_retained_bytes"] % BLOCK == 0
        }

    # Peak and held, in blocks: weights; gathered weights and activations; gradients; and what is let go.
    assert memory(GOOD) == {"init": (1, 1), "forward": (3, 3), "backward": (4, 2), "step": (2, 1)}
    assert memory(VERSION["hungry"]) == {"init": (1, 1), "forward": (3, 3), "backward": (4, 3), "step": (3, 1)}


def test_memory_that_is_not_let_go_is_a_regression_in_its_phase(report: Report) -> None:
    found = report.finding(VERSION["hungry"], metric="device_retained_bytes", phase="backward")
    assert found == {
        "cell": cell("1.1.0"),
        "stack": stack("1.1.0"),
        "scenario": "fit",
        "variant": "base",
        "device": "cpu",
        "metric": "device_retained_bytes",
        "phase": "backward",
        "kind": "regression",
        "value": 3 * BLOCK,
        "baseline_value": 2 * BLOCK,
        "ratio": 1.5,
        "unit": "bytes",
        "significant": True,
        "relevant": True,
        "message": "backward holds 7.81 KiB more after it ends (+50 %): 15.6 KiB -> 23.4 KiB, rank 0",
        "rank": 0,
        "interval": None,
        "evidence": [],
        "intermittent": False,
        "before_update": False,
        "headline": True,
    }


def test_one_problem_says_who_has_it_and_who_has_not(report: Report) -> None:
    (leak,) = [problem for problem in report.json["problems"] if problem["kind"] == "leak"]
    assert leak["text"].startswith("fit: backward holds 7.81 KiB more after it ends (+50 %): 15.6 KiB -> 23.4 KiB.")
    assert leak["having"] == [stack("1.1.0")]
    assert stack("1.0.0") in leak["free"]
    assert stack(VERSION["wrong"]) in [*leak["free"], *leak["unknown"]]
    assert f"{leak['releases']}: {leak['text']}" in report.json["summary"]["sentences"]


def test_training_that_goes_astray_is_wrong_whatever_the_baseline_does(report: Report) -> None:
    found = report.findings(VERSION["wrong"], kind="wrong")
    assert {f["metric"] for f in found} == {"loss_error", "gradient_norm_error", "parameter_error"}
    assert all(f["value"] > 1000 and f["baseline_value"] == 0 and f["relevant"] for f in found)
    (loss,) = [f for f in found if f["metric"] == "loss_error"]
    assert loss["evidence"] == ["losses 0.499509, 0.500153, 0.500258; plain PyTorch 0.499509, 0.500113, 0.500184"]


@pytest.mark.parametrize(
    ("behaviour", "phase", "message"),
    [
        (
            "crashing",
            "backward",
            "failed in backward: RuntimeError: tensor at 0x... has no attribute 'ds_grads_remaining' "
            "(tinyframe/__init__.py:backward); the baseline passed",
        ),
        (
            "not-importing",
            "import",
            "failed in import: ImportError: cannot import name 'inf' from 'torch._six' "
            "(tinyframe/__init__.py:<module>); the baseline passed",
        ),
        ("hanging", "step", "no sign of life for 4 s, last seen in step; the baseline passed"),
        ("dying", "backward", "failed in backward: killed by SIGSEGV; the baseline passed"),
        ("out-of-memory", "backward", "out of memory in backward; the baseline passed"),
    ],
)
def test_a_release_that_breaks_is_a_finding_with_its_stage(
    report: Report, behaviour: str, phase: str, message: str
) -> None:
    (found,) = report.findings(VERSION[behaviour])
    assert (found["kind"], found["metric"], found["phase"]) == ("failed", "outcome", phase)
    assert found["message"] == message
    assert found["relevant"]


def test_of_a_release_that_hangs_it_says_where_the_ranks_are(report: Report) -> None:
    (found,) = report.findings(VERSION["hanging"])
    assert found["evidence"] == ["ranks 0 and 1: tinyframe/__init__.py:step"]


def test_a_release_that_does_not_install_is_a_finding_and_no_abort(report: Report) -> None:
    (found,) = report.findings(NOT_INSTALLING)
    assert (found["kind"], found["phase"]) == ("failed", "install")
    assert found["message"] == (
        "failed in install: build of tinyframe: RuntimeError: nvcc is missing; the baseline passed"
    )


def test_more_host_work_is_a_regression_that_names_the_function(report: Report) -> None:
    found = report.finding(VERSION["busy"], kind="regression")
    assert (found["metric"], found["phase"]) == ("host_calls", "backward")
    assert found["value"] - found["baseline_value"] == 29_000
    assert found["evidence"][-1] == "tinyframe/__init__.py:Engine.hook: 29,000 more calls (1,000 -> 30,000)"


def test_a_new_default_is_reported_as_such(report: Report) -> None:
    (found,) = report.findings(VERSION["new-default"])
    assert (found["kind"], found["metric"]) == ("changed", "configuration")
    assert found["value"] == {"tinyframe.bucket_size": 500}
    assert found["baseline_value"] == {"tinyframe.bucket_size": 1000}
    assert found["message"] == "tinyframe.bucket_size is 500, was 1000"


def test_nothing_is_found_on_a_release_like_the_baseline(report: Report) -> None:
    assert report.findings("2.0.0") == []


def test_too_few_rounds_give_no_verdict_on_time(report: Report) -> None:
    reasons = {n["reason"] for n in report.json["not_compared"] if n["what"] == "step_time_s"}
    assert reasons == {"2 rounds are too few to say anything about time (at least 6)"}


def test_each_run_has_one_file_and_those_that_were_timed_one_for_pytest_benchmark(
    project: Project, report: Report
) -> None:
    timed = {"1.0.0", "1.1.0", "1.2.0", "1.8.0", "1.9.0", "2.0.0"}
    expected = [f"{stack(v)}/fit/base-cpu-KEY.json" for v in (*RELEASES, NOT_INSTALLING)]
    expected += [f"{stack(v)}/fit/base-cpu-KEY.benchmark.json" for v in timed]
    assert project.results_files == sorted(expected)


def test_results_say_what_was_installed_and_where_the_release_s_code_comes_from(
    project: Project, report: Report
) -> None:
    results = {result["cell"]["stack"]["versions"]["tinyframe"]: result for result in stored(project)}
    good, again = results["1.0.0"], results["2.0.0"]
    assert good["installed"]["tinyframe"] == "1.0.0"
    assert {*good["installed"]} == {*again["installed"]} >= {"pytest", "pytest-benchmark"}
    assert good["code_sha256"] == again["code_sha256"] != results["1.1.0"]["code_sha256"]
    assert results[NOT_INSTALLING]["code_sha256"] == ""


def test_no_result_tells_where_its_machine_keeps_things(project: Project, report: Report) -> None:
    files = [file for file in project.results.rglob("*") if file.is_file()]
    assert files
    for file in files:
        text = (gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()).decode()
        for place in (str(project.work.parent), str(ROOT), sys.prefix):
            assert place not in text, file


def test_every_rank_is_in_the_result(project: Project, report: Report) -> None:
    result = next(r for r in stored(project) if r["cell"]["stack"]["versions"]["tinyframe"] == GOOD)
    assert [rank["rank"] for rank in result["record"]["ranks"]] == [0, 1]
    assert all({*rank["phases"]} == {"init", "forward", "backward", "step"} for rank in result["record"]["ranks"])
    assert len(result["record"]["round_s"]) == 2


def test_pytest_benchmark_reads_the_file_beside_the_result(project: Project, report: Report) -> None:
    files = sorted(str(file) for file in project.results.rglob("*.benchmark.json"))
    compared = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "compare", *files[:2], "--columns=min,rounds"],
        capture_output=True,
        text=True,
        check=True,
        cwd=project.folder,
    )
    assert "benchmark: 2 tests" in compared.stdout
    assert json.loads(Path(files[0]).read_text())["benchmarks"][0]["extra_info"]["backward_device_retained_bytes"] > 0


def test_what_a_framework_prints_reaches_nobody(report: Report) -> None:
    assert "greets" not in report.said.out + report.said.err


def test_the_log_of_a_run_has_a_line_for_each_cell(report: Report) -> None:
    lines = report.said.err.splitlines()
    assert [re.sub(r"about .*;", "about TIME;", line) for line in lines if "cells to run" in line] == [
        "12 cells to run, about TIME; 0 are stored already"
    ]
    assert len([line for line in lines if "  fit/base/cpu: " in line]) == 11  # and the one that does not install:
    failed = "failed in install: build of tinyframe: RuntimeError: nvcc is missing"
    assert f"environment {NOT_INSTALLING}: {failed}" in lines


def test_nothing_of_the_run_is_left_running(project: Project, report: Report) -> None:
    assert project.processes() == []


def test_a_second_run_measures_only_what_may_have_been_the_machine_s_fault(project: Project, report: Report) -> None:
    before = {file: file.read_bytes() for file in project.results.rglob("*.json")}
    again = project.regress("--timeout", "3")
    assert "2 cells to run, about" in again.said.err  # the one that hung, and the baseline beside it
    assert "; 11 are stored already\n" in again.said.err
    assert {file: file.read_bytes() for file in before} == before
    assert again.code == 1
    assert [f["message"] for f in again.findings("1.1.0")] == [f["message"] for f in report.findings("1.1.0")]


def test_stored_results_are_compared_without_measuring(project: Project, report: Report) -> None:
    file = project.folder / "compared.json"
    said = project.run("compare", GOOD, VERSION["hungry"], "--json", str(file))
    assert said.code == 1
    compared = Report(said, json.loads(file.read_bytes()))
    assert compared.findings(VERSION["hungry"]) == report.findings(VERSION["hungry"])


def test_the_markdown_report_has_the_finding(project: Project, report: Report) -> None:
    text = (project.folder / "report.md").read_text()
    assert "backward holds 7.81 KiB more after it ends (+50 %): 15.6 KiB -> 23.4 KiB, rank 0" in text
