"""Warnings of a framework, counted by signature: a new one is often the first sign of a changed behaviour."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dsregress.probe.border.encoding import bounded_text
from dsregress.probe.border.faults import stable
from vgpu.replacing import Patches

#: Most warnings that are counted separately.
_MOST_SIGNATURES = 1_000
_REST = "... (further warnings)"

_NUMBER = re.compile(r"\d+(\.\d+)?")


class _CountingHandler(logging.Handler):
    def __init__(self, counts: dict[str, int]) -> None:
        super().__init__(logging.WARNING)
        self._counts = counts

    def emit(self, record: logging.LogRecord) -> None:
        try:
            _count_message(self._counts, f"{record.name}: {bounded_text(record.getMessage())}")
        except Exception:  # a framework's own broken log call is not an error of this run
            pass


def _count_message(counts: dict[str, int], message: str) -> None:
    """Count a message under its first line without numbers and addresses."""
    lines = message.strip().splitlines()
    signature = _NUMBER.sub("N", stable(lines[0] if lines else ""))
    if signature not in counts and len(counts) >= _MOST_SIGNATURES:
        signature = _REST
    counts[signature] = counts.get(signature, 0) + 1


@contextmanager
def count_warnings() -> Iterator[dict[str, int]]:
    """Count Python warnings and log records of level WARNING and above within the block, of every logger that exists at
    its start. Yield signature -> count, which grows until the block is left."""
    counts: dict[str, int] = {}
    handler = _CountingHandler(counts)
    # Frameworks switch propagation off on their own loggers, so a handler on the root alone would miss them.
    loggers = [logging.getLogger()] + [
        log for log in logging.root.manager.loggerDict.values() if isinstance(log, logging.Logger) and not log.propagate
    ]
    for log in loggers:
        log.addHandler(handler)
    show = warnings.showwarning

    def showwarning(message: Any, category: Any, *rest: Any, **more: Any) -> None:
        _count_message(counts, f"{category.__name__}: {bounded_text(message)}")
        show(message, category, *rest, **more)

    with Patches("warnings are counted") as patches:
        for log in loggers:
            patches.callback(log.removeHandler, handler)
        patches.replace(warnings, "showwarning", showwarning)
        yield counts
