"""Sentences that are rendered last, from facts."""

from __future__ import annotations

import pytest

from dsregress.messages import COMMA, SEMICOLON, Text, joined, message, name_list, plural_message


def test_a_message_is_rendered_with_its_values_and_the_messages_in_it() -> None:
    inner = message("{phase} holds {size} more", phase="backward", size="2 MiB")
    assert str(message("{change} ({share:+d} %)", change=inner, share=50)) == "backward holds 2 MiB more (+50 %)"


def test_a_value_that_looks_like_a_placeholder_stays_as_it_is() -> None:
    assert str(message("failed: {error}", error="KeyError: '{phase}'")) == "failed: KeyError: '{phase}'"
    assert str(joined(COMMA, ("{first}", "{next}"))) == "{first}, {next}"


@pytest.mark.parametrize(("count", "text"), [(1, "1 crash"), (0, "0 crashes"), (1200, "1,200 crashes")])
def test_a_count_chooses_between_singular_and_plural(count: int, text: str) -> None:
    assert str(plural_message("{count:,} crash", "{count:,} crashes", count)) == text


@pytest.mark.parametrize(
    ("parts", "text"),
    [((), ""), (("", ""), ""), (("a", ""), "a"), (("a", "", message("b"), "c"), "a; b; c")],
)
def test_empty_parts_have_no_joint(parts: tuple[Text, ...], text: str) -> None:
    assert str(joined(SEMICOLON, parts)) == text


def test_names_beyond_the_most_are_counted() -> None:
    assert str(name_list(["a", "b", "c", "d"], 2)) == "a, b and 2 more"
    assert str(name_list(["a", "b"], 2)) == "a, b"


def test_equal_sentences_are_one() -> None:
    assert len({message("{a}", a="1"), message("{a}", a="1"), message("{a}", a="2")}) == 2
