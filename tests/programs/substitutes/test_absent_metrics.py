"""Metrics that are not on this machine, with a library in the place of ``evaluate``."""

from __future__ import annotations

import importlib.machinery
import sys
import types
from typing import Any

import pytest

from dsregress.programs.substitutes.absent_metrics import absent_metrics
from dsregress.programs.world.resource_errors import NotHere


@pytest.fixture
def evaluate(monkeypatch: pytest.MonkeyPatch) -> Any:
    def load(path: str, config_name: str | None = None) -> Any:
        if path == "mine.py":
            return "my own"
        raise FileNotFoundError(path)

    library: Any = types.ModuleType("evaluate")
    library.__spec__ = importlib.machinery.ModuleSpec("evaluate", None)
    library.load = load
    monkeypatch.setitem(sys.modules, "evaluate", library)
    return library


def test_a_metric_that_is_not_here_takes_predictions_and_refuses_a_value(evaluate: Any) -> None:
    with absent_metrics():
        metric = evaluate.load("glue", "mrpc")
        metric.add_batch(predictions=[1], references=[0])
        with pytest.raises(NotHere, match="glue/mrpc"):
            metric.compute()


def test_a_metric_that_is_here_is_used(evaluate: Any) -> None:
    with absent_metrics():
        assert evaluate.load("mine.py") == "my own"


def test_afterwards_a_missing_metric_is_an_error_again(evaluate: Any) -> None:
    with absent_metrics():
        pass
    with pytest.raises(FileNotFoundError):
        evaluate.load("glue")


@pytest.fixture
def nltk_data(monkeypatch: pytest.MonkeyPatch) -> Any:
    def find(resource_name: str) -> str:
        if resource_name == "tokenizers/mine":
            return "/my/own"
        raise LookupError(resource_name)

    library: Any = types.ModuleType("nltk")
    library.__spec__ = importlib.machinery.ModuleSpec("nltk", None)
    library.data = types.ModuleType("nltk.data")
    library.data.find = find
    monkeypatch.setitem(sys.modules, "nltk", library)
    monkeypatch.setitem(sys.modules, "nltk.data", library.data)
    return library.data


def test_a_corpus_that_is_not_here_is_found_and_cannot_be_read(nltk_data: Any) -> None:
    with absent_metrics():
        assert nltk_data.find("tokenizers/mine") == "/my/own"
        missing = nltk_data.find("tokenizers/punkt")
        with pytest.raises(NotHere, match="tokenizers/punkt is not on this machine"):
            f"{missing}/english"
    with pytest.raises(LookupError):
        nltk_data.find("tokenizers/punkt")
