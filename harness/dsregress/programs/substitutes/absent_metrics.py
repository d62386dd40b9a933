"""Metrics of the ``evaluate`` library, whose code is on the hub: a program may load one and train.

    with absent_metrics():
        ...  # the program

Within the block, ``evaluate.load`` loads what this machine has. A missing metric is replaced by a stand-in until a value
is requested, which raises one line (`NotHere`). Programs request it after an epoch, when everything is measured. The
same holds for what ``nltk`` downloads: programs look for its sentence splitter before they train, and score summaries
with it afterwards.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any, NoReturn

from dsregress.programs.world.resource_errors import NotHere, is_absence
from vgpu.replacing import Patches


class AbsentMetric:
    """Takes predictions and has no value."""

    def __init__(self, name: str) -> None:
        self.name = name

    def add(self, *arguments: object, **options: object) -> None:
        pass

    def add_batch(self, *arguments: object, **options: object) -> None:
        pass

    def compute(self, *arguments: object, **options: object) -> NoReturn:
        """Raise NotHere."""
        raise NotHere(f"the metric {self.name} is not on this machine", "end the program before it evaluates (--steps)")


class AbsentCorpus:
    """Replaces a path of nltk's: it can be found but not read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _absent(self, *arguments: object) -> NoReturn:
        raise NotHere(f"nltk's {self._name} is not on this machine", "set NLTK_DATA to a folder that has it")

    __str__ = __fspath__ = open = join = _absent


@contextlib.contextmanager
def absent_metrics() -> Iterator[None]:
    """Replace missing metrics and corpora with stand-ins within the block."""
    with _absent_evaluations(), _absent_corpora():
        yield


@contextlib.contextmanager
def _absent_corpora() -> Iterator[None]:
    if importlib.util.find_spec("nltk") is None:
        yield
        return
    original = importlib.import_module("nltk.data").find

    def find(resource_name: str, *arguments: object, **options: object) -> object:
        try:
            return original(resource_name, *arguments, **options)
        except LookupError:
            return AbsentCorpus(resource_name)

    with Patches("corpora without a download") as patches:
        patches.everywhere(original, find, "find")
        yield


@contextlib.contextmanager
def _absent_evaluations() -> Iterator[None]:
    if importlib.util.find_spec("evaluate") is None:
        yield
        return
    evaluate: Any = importlib.import_module("evaluate")

    original = evaluate.load

    def load(path: str, config_name: str | None = None, *arguments: object, **options: object) -> Any:
        try:
            return original(path, config_name, *arguments, **options)
        except OSError as error:
            if not is_absence(error):
                raise
            return AbsentMetric(f"{path}/{config_name}" if config_name else path)

    with Patches("metrics without a download") as patches:
        patches.everywhere(original, load, "load")
        yield
