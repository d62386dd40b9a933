"""Metrics of the ``evaluate`` library, whose code is on the hub: a program may load one and train.

    with absent_metrics():
        ...  # the program

Within, ``evaluate.load`` loads what is on this machine, as ever. What is not there stands in until a value is wanted: that
is one line (`NotHere`), as there is none. Programs want it after an epoch, when everything is measured.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any, NoReturn

from harness.probe.programs.errors import NotHere
from harness.probe.replacing import everywhere


class AbsentMetric:
    """Takes predictions, and has no value."""

    def __init__(self, name: str) -> None:
        self.name = name

    def add(self, *arguments: Any, **options: Any) -> None:
        pass

    def add_batch(self, *arguments: Any, **options: Any) -> None:
        pass

    def compute(self, *arguments: Any, **options: Any) -> NoReturn:
        raise NotHere(f"the metric {self.name} is not on this machine", "end the program before it evaluates (--steps)")


@contextlib.contextmanager
def absent_metrics() -> Iterator[None]:
    """See above."""
    if importlib.util.find_spec("evaluate") is None:
        yield
        return
    evaluate: Any = importlib.import_module("evaluate")

    original = evaluate.load

    def load(path: str, config_name: str | None = None, *arguments: Any, **options: Any) -> Any:
        try:
            return original(path, config_name, *arguments, **options)
        except (FileNotFoundError, ConnectionError):
            return AbsentMetric(f"{path}/{config_name}" if config_name else path)

    with everywhere(original, load, "load"):
        yield
