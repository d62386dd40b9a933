"""Text from outside as one inert line."""

from __future__ import annotations

import pytest

from harness.report.plain import markdown as inert
from harness.report.plain import plain


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
