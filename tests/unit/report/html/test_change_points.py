"""Where a metric steps."""

from __future__ import annotations

import random

from dsregress.report.html.change_points import change_points


def test_changes_are_found_where_the_values_step() -> None:
    assert change_points([5, 5, 9, 9, None, 5], 1) == (2, 5)
    assert change_points([5, 5.5, 5, 5.9], 1) == ()
    assert change_points([1, 1, 4, 1, 1], 1) == (2, 3)
    assert change_points([], 1) == change_points([3.0], 1) == change_points([None, None], 1) == ()


def test_noise_is_no_change_and_a_step_among_noise_is_one() -> None:
    rng = random.Random(5)
    noise = [1 + rng.gauss(0, 0.05) for _ in range(30)]
    assert change_points(noise, 0.1, exact=False) == ()
    assert change_points([*noise[:15], *(value + 0.6 for value in noise[15:])], 0.1, exact=False) == (15,)
