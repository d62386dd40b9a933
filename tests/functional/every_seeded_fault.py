"""Every seeded fault in every kind of training: ``nox -s seeded_faults``. ``nox -s tests`` seeds each in one kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.functional.releases import FAULTY, assert_passes

#: Of all of them, in seconds: many times what they take on two quiet cores.
LIMIT_S = 7200.0


@pytest.mark.timeout(LIMIT_S)
def test_each_is_seen_as_the_documentation_says(python_of: Callable[..., str]) -> None:
    assert_passes(python_of(FAULTY), "tests/programs/truth/test_seeded_faults.py", limit_s=LIMIT_S)
