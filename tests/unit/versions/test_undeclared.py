"""Undeclared needs of releases."""

from __future__ import annotations

import pytest

from dsregress.versions.undeclared import broken, read_bounds


def test_pins_that_break_an_import_name_the_bound_they_need() -> None:
    assert broken(["torch==2.2.2", "numpy==2.1.0"]) == ("numpy<2",)
    assert broken(["torch==2.4.0", "numpy==2.1.0"]) == ()


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [("<2.3", "before 2.3", "before 2.3"), ("versions", "version", "unknown field `version`")],
)
def test_a_bound_that_is_none_is_refused(old: str, new: str, refusal: str) -> None:
    entry = '[[bound]]\npackage = "torch"\nreleases = "<2.3"\nother = "numpy"\nversions = "<2"\n'
    assert len(read_bounds(entry.encode())) == 1
    with pytest.raises(ValueError, match=refusal):
        read_bounds(entry.replace(old, new).encode())
