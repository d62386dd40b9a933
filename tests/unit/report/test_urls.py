"""Names of files and addresses of pages."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from dsregress.report import urls


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_slug_is_one_safe_part_of_a_path_and_tells_names_apart(one: str, other: str) -> None:
    slug = urls.slug(one)
    assert re.fullmatch(r"[A-Za-z0-9_=][A-Za-z0-9_=.-]*", slug)
    assert ".." not in slug
    assert len(slug) <= 70
    assert (slug == urls.slug(other)) == (one == other)


def test_a_badge_is_at_the_names_that_a_reader_knows() -> None:
    assert urls.badge("llama3_70b_zero3", "0.19.8") == "badge/llama3_70b_zero3/0.19.8"
    assert urls.badge("mine", "torch 2.6.0, deepspeed 0.16.4").startswith("badge/mine/torch-2.6.0-deepspeed-0.16.4-")


@given(st.text(max_size=200))
def test_a_badge_of_any_name_is_at_a_safe_path(name: str) -> None:
    folder, _, file = urls.badge(name, name).removeprefix("badge/").partition("/")
    for part in (folder, file):
        assert re.fullmatch(r"[A-Za-z0-9_=][A-Za-z0-9_=.-]*", part)
        assert ".." not in part
