"""Text from outside as one inert line."""

from __future__ import annotations

import time

import pytest

from dsregress.report.plain_text import markdown as inert
from dsregress.report.plain_text import plain, plain_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\r\nb\tc", "a b c"),
        ("\x07\x9b31m", "\\x07"),
        ("\u202eabc", "\\u202eabc"),
        ("plain, with ümlaut", "plain, with ümlaut"),
    ],
)
def test_plain_text_is_one_printable_line(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_names_keep_their_underscores_in_markdown() -> None:
    assert inert("llama_zero3_backward _x_") == "llama_zero3_backward &#95;x&#95;"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error file=a.py::boom", ":\\x3aerror file=a.py::boom"),
        ("x ::stop-commands::y", "x :\\x3astop-commands::y"),
        ("##[error]boom", "#\\x23[error]boom"),
        ("a##vso[task.complete]b", "a#\\x23vso[task.complete]b"),
        ("##teamcity[buildStop]", "#\\x23teamcity[buildStop]"),
        (
            "test_a.py::test_errors, at::native::echo, ## heading",
            "test_a.py::test_errors, at::native::echo, ## heading",
        ),
    ],
)
def test_a_ci_system_finds_no_command_wherever_a_line_is_wrapped(text: str, shown: str) -> None:
    assert plain(text) == plain_lines(text) == shown
    assert "::error" not in inert(text)
    assert "##" not in inert(text).replace("## heading", "")


def test_lines_and_columns_of_an_output_stay_and_what_they_hold_is_inert() -> None:
    assert plain_lines("a   b\n  \x1b[2Jc\u202e\x07\n") == "a   b\n  c\\u202e\\x07\n"


def test_an_escape_without_its_end_takes_no_text_with_it() -> None:
    assert plain("\x1b]0;the error is here") == "\\x1b]0;the error is here"


@pytest.mark.parametrize("piece", ["\x1b]", "\x1b[0;", "\x9b1", "##-", "::", "_", "\x1b]0\x1b", "  "])
def test_hostile_text_takes_time_in_proportion_to_its_length(piece: str) -> None:
    short, long = (_seconds(piece * count) for count in (2_000, 32_000))
    assert long < 100 * short + 0.05  # 16 times as long: 16 times the work, or 256 times


def _seconds(text: str) -> float:
    began = time.process_time()
    inert(text)
    return time.process_time() - began
