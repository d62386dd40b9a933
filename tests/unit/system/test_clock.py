"""Dates of results: in the order of their text, and of what was measured."""

from __future__ import annotations

import pytest

from dsregress.system import clock


@pytest.mark.parametrize(
    ("stamp", "earlier", "dated"),
    [
        ("2026-06-01T12:00:00Z", "", "2026-06-01T12:00:00Z"),
        ("2026-06-01T12:00:00Z", "2026-06-01T11:59:59Z", "2026-06-01T12:00:00Z"),
        ("2026-06-01T12:00:00Z", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"),
        ("1970-01-01T00:00:00Z", "2106-02-07T06:28:15Z", "2106-02-07T06:28:16Z"),
        ("2026-06-01T12:00:00Z", "9999-12-31T23:59:59Z", "2026-06-01T12:00:00Z"),  # there is no later one
        ("2026-06-01T12:00:00Z", "2026-99-99T99:99:99Z", "2026-06-01T12:00:00Z"),
        ("2026-06-01T12:00:00Z", "zzz", "2026-06-01T12:00:00Z"),
    ],
)
def test_a_date_is_behind_what_was_measured_before(stamp: str, earlier: str, dated: str) -> None:
    assert clock.behind(stamp, earlier) == dated


def test_now_is_a_date() -> None:
    assert clock.is_stamp(clock.stamp())
    assert not clock.is_stamp("yesterday")
    assert clock.seconds_between("2026-06-01T12:00:00Z", "2026-06-01T12:01:00Z") == 60
