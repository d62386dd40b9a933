"""A program's run without problems shows what it holds, its peaks, and the room on its card."""

from __future__ import annotations

import msgspec

from dsregress.compare import Thresholds, compare
from dsregress.model import Result
from dsregress.report.comparison.markdown import first_screen_markdown
from dsregress.report.comparison.terminal import first_lines
from dsregress.report.context import report_context
from dsregress.report.first_screen import FirstScreen
from dsregress.report.report_view import report_view
from tests.builders.synthetic import noisy_record, result

GIB = 1 << 30


def of_program(version: str, *, held_gib: int = 4, scenario: str = "train-3f9a1c") -> Result:
    run = noisy_record(1)
    for rank in run.ranks:
        for number, phase in enumerate(("init", "forward", "backward", "step")):
            rank.phases[phase].device_retained_bytes = held_gib * GIB
            rank.phases[phase].device_peak_bytes = (held_gib + number) * GIB
        rank.numerics = None
    made = result(version, scenario=scenario, variant="base", device="sim", run=run)
    parameters = {"program": "torchrun train.py", "world_size": 2, "gpu": "H100-80G"}
    return msgspec.structs.replace(made, cell=msgspec.structs.replace(made.cell, parameters=parameters))


def screen(*results: Result) -> FirstScreen:
    seen = compare(results, results[0].cell.stack.id, Thresholds(), lambda result: None)
    return report_view(report_context(seen)).screen


def test_a_run_without_problems_shows_its_figures() -> None:
    shown = screen(of_program("0.16.8"))
    assert " ".join(map(str, shown.figures)) == (
        "train-3f9a1c with 0.16.8: 4.00 GiB held after the step; peaks: init 4.00 GiB, forward 5.00 GiB, backward 6.00 GiB, "
        "step 7.00 GiB. It needs 7.00 GiB of the 77.6 GiB that H100-80G has for tensors."
    )
    text = " ".join("\n".join(line.plain for line in first_lines(shown, 80)).split())
    assert "train-3f9a1c with 0.16.8: 4.00 GiB held after the step; peaks: init 4.00 GiB" in text
    assert any("4.00 GiB held after the step" in line for line in first_screen_markdown(shown))


def test_of_releases_that_fare_alike_the_newest_is_shown() -> None:
    (figures, _) = screen(of_program("0.15.0"), of_program("0.16.8")).figures
    assert str(figures).startswith("train-3f9a1c with 0.16.8: ")


def test_a_problem_has_its_own_figures() -> None:
    assert screen(of_program("0.15.0"), of_program("0.16.8", held_gib=40)).figures == ()


def test_a_scenario_has_none() -> None:
    assert screen(of_program("0.16.8", scenario="llama_zero3_backward")).figures == ()
