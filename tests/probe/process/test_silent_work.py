"""Silent ranks work if they compute, or would if they had a processor."""

from __future__ import annotations

import pytest

from dsregress.probe.process import silent_work
from dsregress.probe.process.silent_work import SilentWork


@pytest.mark.parametrize(
    ("computed_s", "waited_s", "works"),
    [
        (1.0, 0.0, True),
        (0.3, 0.0, False),  # asks again and again, with a processor of its own
        (0.3, 4.0, True),  # a quiet start of a program on a machine that others keep busy
        (0.02, 4.0, False),  # asks again and again, on such a machine
        (0.0, 0.0, False),
    ],
)
def test_a_rank_works_if_it_computes_or_others_keep_it_from_computing(
    computed_s: float, waited_s: float, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([(7.0, 3.0), (7.0 + computed_s, 3.0 + waited_s)])
    monkeypatch.setattr(silent_work, "_time_of", lambda ranks: silent_work._Time(*next(times)))
    observed = SilentWork(180.0)
    assert observed.observe([1]) == 5.0
    assert observed.is_seen([1]) is works
