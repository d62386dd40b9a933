"""What a report of any format says."""

from __future__ import annotations

import json

from dsregress.compare import Comparison, Thresholds, compare
from dsregress.model import Result
from dsregress.report.comparison.json import comparison_json
from dsregress.report.context import report_context
from dsregress.report.report_view import report_view
from tests.builders.synthetic import noisy_record, result


def test_the_command_measures_problem_1_again_and_not_an_older_one_that_is_larger() -> None:
    held = {("0.16.0", "a"): 9, ("0.17.0", "b"): 3}
    results = [
        result(version, scenario=scenario, run=noisy_record(at, held_mib=held.get((version, scenario), 0)))
        for at, version in enumerate(("0.15.0", "0.16.0", "0.17.0"))
        for scenario in ("a", "b")
    ]
    seen = report_view(report_context(compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)))
    first, second, *_ = [line for section in seen.screen.sections for line in section.problems]
    assert (first.releases, second.releases) == ("0.17.0", "0.16.0")
    assert seen.reproduce == (
        "dsregress regress --deepspeed 0.15.0,0.17.0 --baseline 0.15.0 --scenario b "
        "--variant gradient_checkpointing=non_reentrant --device cpu --fresh"
    )


def test_releases_without_a_verdict_for_one_reason_are_one_line() -> None:
    alone = [result(version, session="another") for version in ("0.16.0", "0.16.4", "0.16.8", "0.17.0")]
    results = [result("0.15.0"), *alone[:3], result("0.16.9"), alone[3]]
    seen = report_view(report_context(compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)))
    (line,) = seen.not_compared
    assert seen.without_verdict == 4
    assert line == (
        "0.16.0 to 0.16.8, 0.17.0: step time: timed in another session than the baseline; --fresh measures both together "
        "(llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu)"
    )


def judged_by_no_oracle(version: str, memory: str, numerics: str, **changes: str) -> Result:
    run = noisy_record(1)
    for rank in run.ranks:
        rank.ideal_note = memory
    numbers = run.ranks[0].numerics
    assert numbers is not None
    numbers.loss_error = numbers.gradient_norm_error = numbers.parameter_error = None
    numbers.note = numerics
    return result(version, run=run, **changes)


def compared(*results: Result) -> Comparison:
    return compare(results, results[0].cell.stack.id, Thresholds(), lambda _: None)


def test_cells_that_an_oracle_says_nothing_of_are_one_line_for_each_reason() -> None:
    dropout = "no truth to compare with, only other releases: dropout is random"
    cells = [
        judged_by_no_oracle(version, "of one engine", dropout if version == "0.16.4" else "", scenario=scenario)
        for version in ("0.15.0", "0.16.0", "0.16.4")
        for scenario in ("a", "b", "c")
    ]
    comparison = compared(*cells)
    variant = "gradient_checkpointing=non_reentrant/cpu"
    on = f"(a/{variant}, b/{variant} and 1 more)"
    assert report_view(report_context(comparison)).notes[-3:] == (
        f"not judged by the memory oracle: of one engine {on}",
        f"0.16.4: not judged by the numerics oracle: dropout is random {on}",
        f"0.15.0, 0.16.0: not judged by the numerics oracle: its trained values were not compared {on}",
    )
    missing = json.loads(comparison_json(report_context(comparison)))["not_judged"]
    assert [(one["oracle"], one["reason"], len(one["cells"])) for one in missing] == [
        ("memory", "of one engine", 9),
        ("numerics", "dropout is random", 3),
        ("numerics", "its trained values were not compared", 6),
    ]
    assert missing[1]["cells"][0] == cells[6].cell.id


def test_of_a_simulation_the_numerics_oracle_says_nothing_whatever_the_record_has() -> None:
    (line,) = [
        note
        for note in report_view(report_context(compared(judged_by_no_oracle("0.15.0", "x", "", device="sim")))).notes
        if "numerics" in note
    ]
    assert line.startswith("not judged by the numerics oracle: a simulation computes no values (")


def test_a_run_that_all_oracles_judged_is_not_mentioned() -> None:
    run = noisy_record(1)
    run.ranks[0].ideal = {"step.device_retained_bytes": {"parameters": 1 << 30}}
    assert compared(result("0.15.0", run=run)).not_judged == ()
