"""Explanations of several ranks become one."""

from __future__ import annotations

from dsregress.probe.border.merging import merge_explanations
from dsregress.probe.border.wire import Explanation, Held, Moment, Stretch
from dsregress.probe.holders import categories


def test_each_moment_is_that_of_the_rank_that_holds_most() -> None:
    def of_rank(rank: int, forward: int, backward: int) -> Explanation:
        def moment(nbytes: int) -> Moment:
            return Moment(rank, nbytes, [Held(nbytes, 1, categories.OTHER, "", "a.py:1 in f", [], "forward")])

        return Explanation(
            {"forward.device_peak_bytes": moment(forward), "backward.device_peak_bytes": moment(backward)},
            [Stretch("forward", [[0, forward]]), Stretch("backward", [[0, backward]])],
        )

    merged = merge_explanations([of_rank(0, 10, 5), of_rank(1, 7, 9)])
    assert {key: moment.rank for key, moment in merged.moments.items()} == {
        "forward.device_peak_bytes": 0,
        "backward.device_peak_bytes": 1,
    }
    assert merged.timeline[0].points == [[0, 10]]
