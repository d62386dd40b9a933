"""Questions that are asked of many versions: what is a question, what is an answer."""

from __future__ import annotations

import pytest

from dsregress.bisect import questions
from dsregress.bisect.questions import Observation, Question
from dsregress.config.thresholds import Thresholds
from dsregress.errors import UsageError
from dsregress.model import Failed, Outcome, OutOfMemory, Passed, Skipped, TimedOut, Verdict
from dsregress.probe.border.wire import Detail
from tests.builders.synthetic import MIB, record, result

HELD = Question("device_retained_bytes", "backward")
OUTCOME = Question("outcome")
LIMITS = Thresholds()


def number(value: float) -> Observation:
    return Observation(value=float(value), text=str(value))


def text(value: str) -> Observation:
    return Observation(value=value, text=value)


def read(question: Question, outcome: Outcome | None = None, detail: Detail | None = None) -> Observation:
    run = record() if isinstance(outcome, (Passed, type(None))) else None
    return questions.observe(question, result(outcome=outcome, run=run), lambda _: detail)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("backward.device_retained_bytes", HELD),
        ("step.device_excess_bytes", Question("device_excess_bytes", "step")),
        ("parameter_error", Question("parameter_error")),
        ("step_time_s", Question("step_time_s")),
        ("outcome", OUTCOME),
        ("outcome:ds_grads_remaining", Question("outcome", key="ds_grads_remaining")),
        (
            "configuration:zero_optimization.overlap_comm",
            Question("configuration", key="zero_optimization.overlap_comm"),
        ),
        ("warnings:deprecated: use x", Question("warnings", key="deprecated: use x")),
    ],
)
def test_a_question_is_read_and_written_alike(written: str, meant: Question) -> None:
    assert questions.parse_question(written) == meant
    assert meant.name == written


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("init_s", "--metric: init_s is reported, not judged; use step_time_s"),
        (
            "configuration",
            "--metric: configuration needs a key; write e.g. configuration:zero_optimization.overlap_comm",
        ),
        ("backward.loss_error", "--metric: loss_error has no phases; write loss_error"),
        ("loss_error:x", "--metric: loss_error has nothing behind a colon; write loss_error"),
    ],
)
def test_what_is_no_question_is_reported_in_one_line(written: str, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        questions.parse_question(written)
    assert str(caught.value) == line


def test_what_did_not_pass_says_nothing_about_bytes() -> None:
    assert read(HELD) == Observation(value=2.0 * MIB + 2048, text="2.00 MiB")
    assert read(HELD, Failed("import", "ImportError: x")) == Observation(
        value=None, text="failed in import: ImportError: x"
    )


def test_a_limit_of_the_simulation_is_no_crash_of_the_release() -> None:
    limit = "SimulationError: torch.compile cannot be simulated (deepspeed.py:compiled)"
    for question in (OUTCOME, HELD):
        assert read(question, Failed("init", limit)) == Observation(value=None, text=f"skipped: {limit}")


def test_outcomes_are_distinguished_by_where_and_how_they_end() -> None:
    values = [
        read(OUTCOME, one).value
        for one in (Passed(), Failed("backward", "E: x"), OutOfMemory("backward"), TimedOut("step", 3), Skipped("no"))
    ]
    assert values == ["passed", "backward: E: x", "out of memory", "step: no sign of life for 3 s", None]
    assert read(OUTCOME, TimedOut("step", 30, working=True)).value == "step: not done after 30 s of work"
    assert read(OUTCOME, Failed("harness", "a bug of ours")).value is None


def test_settings_are_compared_as_they_are_spelled_and_may_be_absent() -> None:
    detail = Detail(configuration={"a": [1, 2]}, warnings={"x is deprecated": 3})
    assert read(Question("configuration", key="a"), detail=detail).value == "[1, 2]"
    assert read(Question("configuration", key="b"), detail=detail).value == "absent"
    assert read(Question("configuration", key="a")).value is None
    assert [read(Question("warnings", key=key), detail=detail).value for key in ("deprecated", "other")] == [
        "warns",
        "does not warn",
    ]


@pytest.mark.parametrize(
    ("value", "answer"), [(100, "good"), (99, "good"), (140, "good"), (160, "bad"), (200, "bad"), (900, "bad")]
)
def test_a_number_is_as_the_end_that_it_is_nearer_to(value: float, answer: str) -> None:
    said = questions.judge_observation(HELD, number(value * MIB), number(100 * MIB), number(200 * MIB), LIMITS)
    assert said is Verdict(answer)


def test_without_a_bad_end_the_thresholds_say_what_is_bad() -> None:
    said = [
        questions.judge_observation(HELD, number(value), number(10 * MIB), None, LIMITS)
        for value in (9 * MIB, 10 * MIB + 1000, 10.2 * MIB, 11 * MIB)
    ]
    assert said == [Verdict.GOOD, Verdict.GOOD, Verdict.GOOD, Verdict.BAD]


def test_the_oracle_has_a_limit_of_its_own() -> None:
    question = Question("gradient_norm_error")
    for value, answer in (
        (0.9, Verdict.GOOD),
        (1.1, Verdict.BAD),
        (float("inf"), Verdict.BAD),
        (float("nan"), Verdict.BAD),
    ):
        assert questions.judge_observation(question, number(value), number(0.1), number(50.0), LIMITS) is answer


def test_another_crash_than_the_one_that_is_sought_is_no_answer() -> None:
    good, bad = text("passed"), text("backward: E: x")
    said = [
        questions.judge_observation(OUTCOME, text(one), good, bad, LIMITS)
        for one in ("passed", "backward: E: x", "import: y")
    ]
    assert said == [Verdict.GOOD, Verdict.BAD, Verdict.UNKNOWN]


def test_ends_are_apart_the_same_or_swapped() -> None:
    def relation(question: Question, good: Observation, bad: Observation) -> tuple[bool, bool]:
        ends = questions.question_ends(question, good, bad, LIMITS)
        return ends.differ, ends.swapped

    assert relation(HELD, number(10 * MIB), number(20 * MIB)) == (True, False)
    assert relation(HELD, number(20 * MIB), number(10 * MIB)) == (True, True)
    assert relation(HELD, number(10 * MIB), number(10 * MIB + 5)) == (False, False)
    assert relation(Question("loss_error"), number(0.5), number(7.0)) == (True, False)
    assert relation(Question("loss_error"), number(7.0), number(0.5)) == (True, True)
    assert relation(Question("loss_error"), number(7.0), number(9.0)) == (False, False)
    assert relation(OUTCOME, text("passed"), text("import: x")) == (True, False)
    assert relation(OUTCOME, text("import: x"), text("passed")) == (True, True)
    assert relation(Question("configuration", key="a"), text("1"), text("2")) == (True, False)


def test_a_value_apart_from_both_ends_is_noticed() -> None:
    good, bad = number(100), number(200)
    assert [questions.is_between(number(value), good, bad) for value in (110, 150, 190, 300)] == [
        False,
        True,
        False,
        True,
    ]
