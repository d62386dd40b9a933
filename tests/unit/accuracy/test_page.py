"""How predictions beside measurements are shown: units, misses with their reasons, and what could not be simulated."""

from __future__ import annotations

import json

import msgspec

from dsregress.model import Failed, Passed
from tests.accuracy import page
from tests.accuracy.points import (
    PointAnswer,
    PredictedFigure,
    PredictedFit,
    PredictedStep,
    PublishedPoint,
    Reading,
    Speed,
)
from vgpu.card_room import Certainty

GIB = 1 << 30


def point(name: str) -> PublishedPoint:
    return PublishedPoint(
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


def judged(fitted: bool, certainty: Certainty) -> PointAnswer:
    fit = PredictedFit(
        fitted=fitted, needed_bytes=70 * GIB, card_bytes=79 * GIB, certainty=certainty, words=certainty.value
    )
    return msgspec.structs.replace(ANSWERS[0], fit=fit)


def test_verdicts_stand_beside_what_happened() -> None:
    answers = [
        judged(True, Certainty.FITS),
        judged(False, Certainty.FITS),
        judged(False, Certainty.TOO_CLOSE),
        judged(False, Certainty.DOES_NOT_FIT),
    ]
    text = page.as_text(answers)
    assert "2 of 4 verdicts are right, 1 wrong, 1 too close to call; 3 of the runs ran out of memory" in text
    found = [line.split("  ")[-1].strip() for line in text.splitlines() if "70.00" in line]
    assert [one if one in ("wrong", "open") else "" for one in found] == ["", "wrong", "open", ""]
    assert "## Fit or not" in page.as_markdown(answers)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if "peak" in line.split()[:6] and "step" in line]


def test_each_figure_is_a_row_in_the_unit_of_its_source() -> None:
    found = rows(page.as_text(ANSWERS))
    assert [row[-3:] for row in found[:1]] == [["2.000", "2.000", "+0.000"]]
    assert found[1][-4:] == ["2.000", "3.000", "+1.000", "misses"]
    assert found[2][-3:] == ["2,147,483,648", "2,147,483,136", "-512"]
    assert found[3][-4:] == ["-", "-", "no", "prediction"]


def test_the_last_lines_say_what_failed_and_sum_up() -> None:
    *_, failed, summary = page.as_text(ANSWERS).splitlines()
    assert failed == "q: failed in import: no such module"
    assert summary == "2 of 4 figures of 2 published runs meet the goal, 1 are equal to the last digit"


def test_the_page_names_why_a_prediction_misses_and_escapes_what_others_wrote() -> None:
    written = page.as_markdown(ANSWERS)
    assert written.startswith("# Accuracy\n")
    assert "- p, end: another torch\n" in written
    assert "| q | a &#124; source | B | 4 A100 | 0.15.1 | the &lt;torch&gt; release |\n" in written


def test_the_page_counts_by_source_whichever_of_its_files_it_is() -> None:
    of_one = [msgspec.structs.replace(point("p"), source=f"one/repository, {file}.csv") for file in "ab"]
    answers = [msgspec.structs.replace(ANSWERS[0], point=one) for one in of_one]
    lines = page.as_markdown([*ANSWERS[1:], *answers]).splitlines()
    assert [line for line in lines if "repository |" in line] == ["| one/repository | 2 | 6 | 2 | 4 |"]
    assert lines.index("| one/repository | 2 | 6 | 2 | 4 |") + 1 == lines.index("| a &#124; source | 1 | 1 | 0 | 0 |")


def test_a_reason_of_several_figures_is_given_once() -> None:
    again = msgspec.structs.replace(ANSWERS[0].figures[1], point="r", at="later")
    answers = [msgspec.structs.replace(ANSWERS[0], figures=(ANSWERS[0].figures[1], again))]
    assert "- p, end; r, later: another torch" in page.as_markdown(answers)


def test_json_has_every_figure_in_bytes() -> None:
    content = json.loads(page.as_json(ANSWERS))
    assert content["schema"] == page.SCHEMA
    assert [f["error_bytes"] for p in content["points"] for f in p["figures"]] == [0, GIB, -512, None]
    assert [f["is_within"] for p in content["points"] for f in p["figures"]] == [True, False, True, False]
    assert content["errors"][0]["figures"] == 3


def test_a_release_that_was_chosen_again_is_said_before_the_figures() -> None:
    (answer, other) = ANSWERS
    again = msgspec.structs.replace(answer.point, chosen_again="0.1 was tried first, and missed")
    written = page.as_markdown([msgspec.structs.replace(answer, point=again), other])
    assert "\n- p: 0.1 was tried first, and missed\n" in written.partition("## Figures")[0]
    assert "These choices were changed" not in page.as_markdown(ANSWERS)


def test_the_page_names_the_torch_of_the_cells() -> None:
    assert "Predictions use torch 2.13.0, unless" in page.as_markdown(ANSWERS)


def test_the_page_names_a_torch_where_every_point_has_packages_of_its_own() -> None:
    (answer, _) = ANSWERS
    named = msgspec.structs.replace(answer, point=msgspec.structs.replace(answer.point, packages={"torch": "2.3.1"}))
    assert "Predictions use torch 2.13.0, unless" in page.as_markdown([named])


def test_a_figure_without_a_prediction_is_no_miss_that_a_reason_excuses() -> None:
    (answer, other) = ANSWERS
    unreached = msgspec.structs.replace(other, figures=(figure(None, explained="another rank"),))
    assert "another rank" not in page.as_markdown([answer, unreached])


def test_step_times_are_a_table_of_their_own_with_the_error_of_an_estimate() -> None:
    def fast(name: str, gpu: str, measured_s: float) -> PointAnswer:
        step = PredictedStep(
            measured_s=measured_s, bound_s=0.5, matmul_s=0.75, memory_s=0.25, communication_s=0.1, roofline_s=1.0
        )
        published = msgspec.structs.replace(point(name), gpu=gpu, readings=(), speed=Speed(rate=measured_s, unit="s"))
        return PointAnswer(point=published, cell="c", torch="2.13.0", outcome=Passed(), figures=(), step=step)

    on = {"a": ("A100-80G", 1.0), "b": ("A100-80G", 1.25), "c": ("H100-80G", 2.0), "d": ("H100-80G", 2.0)}
    answers = [fast(name, *given) for name, given in on.items()]
    text = page.as_text(answers)
    first = next(line.split() for line in text.splitlines() if line.startswith("a "))
    assert first == ["a", "1", "0.5", "0.75", "0.25", "0.1", "1", "1.00", "+25", "%", "+100", "%"]
    assert text.splitlines()[-1] == (
        "4 published jobs take the sum times 1.12 on 8.0, 2.00 on 9.0 (medians, by compute capability), "
        "or times 1.62 over all; an estimate is off by 10 % in the median and 25 % at most, elsewhere by 52 % and 100 %; "
        "3 of the jobs take more than twice their lower bound"
    )
    assert "## Step time" in page.as_markdown([*ANSWERS, *answers])
    assert "## Step time" not in page.as_markdown(ANSWERS)
