"""Runs what several ranks do in one process: each in a thread of its own, one at a time, up to where they meet.

    together = RanksInStep(passing)
    results = together.run([one_rank, another_rank])  # which call together.meet(value, combine)

It is not for speed: each may go on only when all have come.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dsregress.programs.truth.plain_settings import NoTruth
from dsregress.programs.watch import kept_calls

_Result = TypeVar("_Result")

_UNLIKE = "ranks that divide its sequences call its attention differently often"


class RanksInStep:
    """``passing`` is called before another rank goes on."""

    def __init__(self, passing: Callable[[], None]) -> None:
        self.meetings = 0
        self._passing = passing
        self._turn = threading.Condition()
        self._count, self._running = 0, 0  #: ranks, and the one that may go on
        self._numbers: dict[int, int] = {}  #: of ranks, by their threads
        self._ended: set[int] = set()
        self._failed: BaseException | None = None
        self._brought: dict[int, Any] = {}
        self._taken: list[Any] = []

    def run(self, ranks: Sequence[Callable[[], _Result]]) -> list[_Result]:
        """Return what each returns. Raise what the first of them raises, or NoTruth if they meet differently often."""
        self._count = len(ranks)
        results: dict[int, _Result] = {}
        threads = [
            threading.Thread(target=self._run_one, args=(number, rank, results), daemon=True)
            for number, rank in enumerate(ranks)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failed is not None:
            raise self._failed
        return [results[number] for number in range(self._count)]

    def meet(self, value: object, combine: Callable[[Sequence[Any]], Sequence[Any]]) -> Any:
        """Bring a value. When all ranks have, return this rank's part of what ``combine`` makes of all values."""
        number = self._numbers[threading.get_ident()]
        self._brought[number] = value
        if self._ended:
            raise NoTruth(_UNLIKE)
        if len(self._brought) == self._count:
            brought, self._brought = self._brought, {}
            self._taken = list(combine([brought[one] for one in range(self._count)]))
            self.meetings += 1
        random = kept_calls.random_states()
        self._pass_on(number)
        self._wait(number)
        kept_calls.restore_random_states(random)
        return self._taken[number]

    def _run_one(self, number: int, rank: Callable[[], _Result], results: dict[int, _Result]) -> None:
        self._numbers[threading.get_ident()] = number
        try:
            self._wait(number)
            results[number] = rank()
        except BaseException as error:  # of whatever a model raises: `run` does so again
            with self._turn:
                self._failed = self._failed or error
        self._ended.add(number)
        if self._brought and self._failed is None:
            self._failed = NoTruth(_UNLIKE)
        self._pass_on(number)

    def _wait(self, number: int) -> None:
        with self._turn:
            self._turn.wait_for(lambda: self._running == number or self._failed is not None)
            if self._failed is not None:
                raise self._failed

    def _pass_on(self, number: int) -> None:
        self._passing()
        with self._turn:
            self._running = (number + 1) % self._count
            self._turn.notify_all()
