"""What a report of any format says."""

from __future__ import annotations

from harness.compare import Thresholds, compare
from harness.report.view import view
from tests.builders.synthetic import noisy_record, result


def test_the_command_measures_problem_1_again_and_not_an_older_one_that_is_larger() -> None:
    held = {("0.16.0", "a"): 9, ("0.17.0", "b"): 3}
    results = [
        result(version, scenario=scenario, run=noisy_record(at, held_mib=held.get((version, scenario), 0)))
        for at, version in enumerate(("0.15.0", "0.16.0", "0.17.0"))
        for scenario in ("a", "b")
    ]
    seen = view(compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None))
    first, second, *_ = [line for section in seen.screen.sections for line in section.problems]
    assert (first.releases, second.releases) == ("0.17.0", "0.16.0")
    assert seen.reproduce == (
        "python -m harness regress --deepspeed 0.15.0,0.17.0 --baseline 0.15.0 --scenario b "
        "--variant gradient_checkpointing=non_reentrant --device cpu --fresh"
    )


def test_releases_without_a_verdict_for_one_reason_are_one_line() -> None:
    alone = [result(version, session="another") for version in ("0.16.0", "0.16.4", "0.16.8", "0.17.0")]
    results = [result("0.15.0"), *alone[:3], result("0.16.9"), alone[3]]
    seen = view(compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None))
    (line,) = seen.not_compared
    assert seen.without_verdict == 4
    assert line == (
        "0.16.0 to 0.16.8, 0.17.0: step time: timed in another session than the baseline; --fresh measures both together "
        "(llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu)"
    )
