"""Warnings that a framework gives, by signature: a new one is often the first sign of a changed behaviour."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.probe.border.faults import stable

_NUMBER = re.compile(r"\d+(\.\d+)?")


class _Ear(logging.Handler):
    def __init__(self, heard: dict[str, int]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        try:
            add(self._heard, f"{record.name}: {record.getMessage()}")
        except Exception:  # a framework's own broken log call is not ours to raise
            pass


def add(heard: dict[str, int], text: str) -> None:
    """Count a message under its first line without numbers and addresses."""
    lines = text.strip().splitlines()
    signature = _NUMBER.sub("N", stable(lines[0] if lines else ""))
    heard[signature] = heard.get(signature, 0) + 1


@contextmanager
def heard() -> Iterator[dict[str, int]]:
    """Counts Python warnings and log records of level WARNING and above, of every logger there is by now."""
    found: dict[str, int] = {}
    ear = _Ear(found)
    # Frameworks switch propagation off on their own loggers, so listening at the root alone would miss them.
    loggers = [logging.getLogger()] + [
        log for log in logging.root.manager.loggerDict.values() if isinstance(log, logging.Logger) and not log.propagate
    ]
    for log in loggers:
        log.addHandler(ear)
    show = warnings.showwarning

    def showwarning(message: Any, category: Any, *rest: Any, **more: Any) -> None:
        add(found, f"{category.__name__}: {message}")
        show(message, category, *rest, **more)

    warnings.showwarning = showwarning
    try:
        yield found
    finally:
        warnings.showwarning = show
        for log in loggers:
            log.removeHandler(ear)
