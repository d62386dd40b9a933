"""The table of the words of parameters' values."""

from __future__ import annotations

import pytest

from dsregress.wording.workload_words import read_words


@pytest.mark.parametrize("entry", ['none = "off, not {value}"', '"{value}" = "{name} {value}"'])
def test_words_with_a_place_for_something_unknown_are_refused(entry: str) -> None:
    assert read_words(b'[dtype]\n"{value}" = "in {value}"')["dtype"]["{value}"].id == "in {value}"
    with pytest.raises(ValueError, match="dtype: the words for .* have a place for something unknown"):
        read_words(f"[dtype]\n{entry}".encode())
