"""Holders of memory, for the cells that were explained: one file per content.

    RESULTS/details/explained-<key>.json.gz     the explanation of the runs with this content key

It explains every run of its content, as memory is the same in all of them, and is written once. An unreadable file counts as
absent: explaining a cell again costs seconds.
"""

from __future__ import annotations

import functools
import gzip
import logging
import os
from collections.abc import Callable, Iterable

import msgspec

from dsregress.errors import ResultsError
from dsregress.model import Result
from dsregress.probe.border.wire import Explanation
from dsregress.store import contents, details
from dsregress.store.contents import ProblemHandler, silent
from dsregress.store.schema import former_key_of, key_of
from dsregress.system.decoding import Damaged, decoded
from dsregress.system.files import write_atomically
from dsregress.system.obstacles import obstacle_error

_LOG = logging.getLogger(__package__)

#: Letters of a content key in a file's name, as many as `dsregress.store.details` takes.
_NAME_LENGTH = 16

#: Raised when the meaning of a stored explanation changes; older ones are then made again.
_FORMAT = 1

PREFIX = "explained-"

#: Explanations kept in memory while a report is made: one workload's findings read the same two.
_MOST_KEPT = 8


class _File(msgspec.Struct, frozen=True):
    format: int
    key: str
    cell: str
    explanation: Explanation


_decoder = msgspec.json.Decoder(_File)
_encoder = msgspec.json.Encoder(order="deterministic")


class Explanations:
    """The explanations under one folder of results."""

    def __init__(self, results: str) -> None:
        self._folder = os.path.join(os.path.abspath(results), details.FOLDER)

    def write(self, key: str, cell: str, explanation: Explanation) -> None:
        """Keep the explanation of the content ``key``. Raise ResultsError."""
        file = self._file_of(key)
        try:
            os.makedirs(self._folder, exist_ok=True)
            data = _encoder.encode(_File(_FORMAT, key, cell, explanation))
            write_atomically(file, gzip.compress(data, mtime=0))
            _LOG.debug("wrote %s", file)
        except OSError as error:
            hint = "choose another folder with --results"
            raise obstacle_error(ResultsError, "cannot be written", error, where=file, hint=hint) from None

    def read(self, key: str, problem: ProblemHandler = silent) -> Explanation | None:
        """Return the explanation of this content; None if no readable one exists. ``problem`` gets a damaged one."""
        file = self._file_of(key)
        try:
            found = decoded(_decoder, contents.read_compressed(file))
        except FileNotFoundError:
            return None
        except (OSError, Damaged) as error:
            problem(file, contents.why_unread(error))
            return None
        return found.explanation if found.format == _FORMAT and found.key == key else None

    def is_empty(self) -> bool:
        """Return True if nothing was explained here."""
        try:
            return not any(name.startswith(PREFIX) for name in contents.file_names(self._folder))
        except OSError:
            return True

    def _file_of(self, key: str) -> str:
        return os.path.join(self._folder, f"{PREFIX}{key[:_NAME_LENGTH]}.json.gz")


def explained_in(folders: Iterable[str], problem: ProblemHandler = silent) -> Callable[[Result], Explanation | None]:
    """Return a function that reads the explanation of a result from the first of these folders of results that has one.
    ``problem`` gets those that are damaged."""
    stored = [one for one in map(Explanations, folders) if not one.is_empty()]

    @functools.lru_cache(maxsize=_MOST_KEPT)
    def read(key: str) -> Explanation | None:
        return next((found for one in stored if (found := one.read(key, problem)) is not None), None)

    return lambda result: (read(key_of(result)) or read(former_key_of(result))) if stored else None
