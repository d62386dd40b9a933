"""The words of the kinds of problems."""

from __future__ import annotations

import pytest

from dsregress.report.problem_kinds import FILE, KINDS, read_kinds


def test_every_kind_but_a_cost_says_what_it_means() -> None:
    assert [kind.name for kind, words in KINDS.items() if not words.meaning and not kind.is_cost] == []
    assert list(KINDS) == sorted(KINDS)


def test_a_kind_without_an_entry_or_an_entry_without_a_kind_is_refused() -> None:
    content = FILE.read_bytes()
    with pytest.raises(ValueError, match="not one entry for each kind of problem: other, wrong"):
        read_kinds(content.replace(b"[wrong]", b"[other]"))


def test_a_field_that_no_kind_has_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown field `color`"):
        read_kinds(FILE.read_bytes() + b'color = "red"\n')
