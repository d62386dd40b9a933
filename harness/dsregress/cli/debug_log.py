"""The debug log, for people who maintain the harness: what each package did, with times, on stderr.

A package writes to the logger of its own name. The probe has none: what it prints is the measured program's.
"""

from __future__ import annotations

import logging
from typing import final

import click

from dsregress.report.plain_text import plain

_ALL = logging.getLogger(__name__.partition(".")[0])


@final
class _Stderr(logging.Handler):
    """Writes where stderr is when a line is written: a live display puts lines above itself."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(plain(self.format(record)), err=True)


_STDERR = _Stderr()
_STDERR.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(name)s: %(message)s", "%H:%M:%S"))


def start_debug_log() -> None:
    """Write what is logged from now on to stderr. May be called twice."""
    _ALL.addHandler(_STDERR)
    _ALL.setLevel(logging.DEBUG)


def stop_debug_log() -> None:
    """Write no more."""
    _ALL.removeHandler(_STDERR)
    _ALL.setLevel(logging.NOTSET)
