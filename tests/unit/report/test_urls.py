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
