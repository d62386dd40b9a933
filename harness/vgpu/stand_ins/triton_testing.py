"""``triton.testing``: benchmarks of kernels can be declared, as files of kernels do on import. None runs here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vgpu.no_stand_in import NoStandInError

__all__ = ["Benchmark", "Mark", "perf_report"]


class Benchmark:
    """The declaration of one benchmark: its arguments are kept as they are given."""

    def __init__(self, *arguments: object, **options: object) -> None:
        self.arguments, self.options = arguments, options


class Mark:
    """A function that is to be timed for each of its ``benchmarks``."""

    def __init__(self, fn: Callable[..., Any], benchmarks: object) -> None:
        self.fn, self.benchmarks = fn, benchmarks

    def run(self, *_: object, **__: object) -> None:
        """Raise NoStandInError: there is no GPU to time."""
        raise NoStandInError("triton.testing.Mark.run has no stand-in")


def perf_report(benchmarks: object) -> Callable[[Callable[..., Any]], Mark]:
    """Return the decorator of a function that is to be timed."""
    return lambda fn: Mark(fn, benchmarks)
