"""Ranks that run in one process, one at a time, up to where they meet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from dsregress.programs.truth.plain_settings import NoTruth  # noqa: E402
from dsregress.programs.truth.ranks_in_step import RanksInStep  # noqa: E402


def test_each_takes_its_part_of_what_all_bring_and_draws_its_own_random_numbers() -> None:
    passed: list[int] = []
    together = RanksInStep(lambda: passed.append(len(passed)))

    def rank(number: int) -> Callable[[], tuple[list[int], float]]:
        def run() -> tuple[list[int], float]:
            torch.manual_seed(number)
            taken = [together.meet(10 * number + turn, lambda brought: [sum(brought)] * 3) for turn in range(2)]
            return taken, float(torch.rand(()))

        return run

    found = together.run([rank(number) for number in range(3)])
    expected = []
    for number in range(3):
        torch.manual_seed(number)
        expected.append(([30, 33], float(torch.rand(()))))
    assert found == expected
    assert together.meetings == 2
    assert len(passed) == 9  # after each part of each rank


@pytest.mark.parametrize("often", [(1, 2), (2, 1)])
def test_ranks_that_meet_differently_often_are_refused(often: tuple[int, int]) -> None:
    together = RanksInStep(lambda: None)

    def rank(count: int) -> Callable[[], None]:
        return lambda: [together.meet(0, lambda brought: brought) for _ in range(count)] and None

    with pytest.raises(NoTruth, match="call its attention differently often"):
        together.run([rank(count) for count in often])


def test_an_error_of_one_ends_all() -> None:
    together = RanksInStep(lambda: None)

    def fails() -> None:
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        together.run([lambda: together.meet(0, lambda brought: brought), fails])
