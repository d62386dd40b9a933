"""How predictions beside measurements are shown: units, misses with their reasons, and what could not be simulated."""

from __future__ import annotations

import json

import msgspec

from harness.advice.accuracy import Point, PointAnswer, PredictedFigure, Reading
from harness.model import Failed, Passed
from harness.report.answers import accuracy

GIB = 1 << 30


def point(name: str) -> Point:
    return Point(
        name=name, grade="B", measured_on="4 A100", line="train.py", gpu="A100-80G", steps=0, deepspeed="0.15.1",
        unknown="the <torch> release", unit="GiB", readings=(Reading(at="end", peak=1.0),), source="a | source",
    )  # fmt: skip


def figure(predicted: int | None, *, explained: str = "", rounding_bytes: float = 0.005 * GIB) -> PredictedFigure:
    return PredictedFigure(
        point="p", at="end", step=2, quantity="peak", measured_bytes=2 * GIB, rounding_bytes=rounding_bytes,
        predicted_bytes=predicted, explained=explained,
    )  # fmt: skip


ANSWERS = [
    PointAnswer(
        point=point("p"),
        cell="c",
        torch="2.13.0",
        outcome=Passed(),
        figures=(
            figure(2 * GIB),
            figure(3 * GIB, explained="another torch"),
            figure(2 * GIB - 512, rounding_bytes=0.5),
        ),
    ),
    PointAnswer(
        point=point("q"),
        cell="d",
        torch="2.13.0",
        outcome=Failed(stage="import", signature="no such module"),
        figures=(figure(None),),
    ),
]


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if "peak" in line.split()[:6] and "step" in line]


def test_each_figure_is_a_row_in_the_unit_of_its_source() -> None:
    found = rows(accuracy.as_text(ANSWERS))
    assert [row[-3:] for row in found[:1]] == [["2.000", "2.000", "+0.000"]]
    assert found[1][-4:] == ["2.000", "3.000", "+1.000", "misses"]
    assert found[2][-3:] == ["2,147,483,648", "2,147,483,136", "-512"]
    assert found[3][-4:] == ["-", "-", "no", "prediction"]


def test_the_last_lines_say_what_failed_and_sum_up() -> None:
    *_, failed, summary = accuracy.as_text(ANSWERS).splitlines()
    assert failed == "q: failed in import: no such module"
    assert summary == "2 of 4 figures of 2 published runs meet the goal, 1 are equal to the last digit"


def test_the_page_names_why_a_prediction_misses_and_escapes_what_others_wrote() -> None:
    page = accuracy.as_markdown(ANSWERS)
    assert page.startswith("# Accuracy\n")
    assert "- p, end: another torch\n" in page
    assert "| q | a &#124; source | B | 4 A100 | 0.15.1 | the &lt;torch&gt; release |\n" in page


def test_json_has_every_figure_in_bytes() -> None:
    content = json.loads(accuracy.as_json(ANSWERS))
    assert content["schema"] == accuracy.SCHEMA
    assert [f["error_bytes"] for p in content["points"] for f in p["figures"]] == [0, GIB, -512, None]
    assert [f["is_within"] for p in content["points"] for f in p["figures"]] == [True, False, True, False]
    assert content["errors"][0]["figures"] == 3


def test_a_release_that_was_chosen_again_is_said_before_the_figures() -> None:
    (answer, other) = ANSWERS
    again = msgspec.structs.replace(answer.point, chosen_again="0.1 was tried first, and missed")
    page = accuracy.as_markdown([msgspec.structs.replace(answer, point=again), other])
    assert "\np: 0.1 was tried first, and missed\n" in page.partition("## Figures")[0]
    assert "made anew" not in accuracy.as_markdown(ANSWERS)


def test_the_page_names_the_torch_of_the_cells() -> None:
    assert "Predictions are of torch 2.13.0, whichever" in accuracy.as_markdown(ANSWERS)


def test_a_figure_without_a_prediction_is_no_miss_that_a_reason_excuses() -> None:
    (answer, other) = ANSWERS
    unreached = msgspec.structs.replace(other, figures=(figure(None, explained="another rank"),))
    assert "another rank" not in accuracy.as_markdown([answer, unreached])
