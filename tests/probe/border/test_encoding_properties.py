"""Of any value, the probe makes JSON that a strict reader takes."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("hypothesis")  # not in a measured environment
from hypothesis import given, settings
from hypothesis import strategies as st

from dsregress.probe.border.encoding import encode

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.characters()
keys = st.text() | st.integers() | st.none() | st.floats() | st.characters()
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(values)
@settings(max_examples=200, deadline=None)
def test_whatever_it_is_a_strict_reader_takes_it(content: object) -> None:
    line = encode(content)
    line.encode()  # no half characters

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    json.loads(line, parse_constant=refuse)
    assert "\n" not in line
