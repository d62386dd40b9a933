"""Details that explain the figures of results: large, and mostly the same from run to run, so equal parts are stored once.

    RESULTS/details/<hash>.json.gz      one part (`dsregress.store.schema.encode_parts`) of the details of many results

A part is written before the first result that names it, so a result whose part is missing has lost it since.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
from collections.abc import Mapping

from dsregress.probe.border.wire import Detail
from dsregress.store import contents, schema
from dsregress.store.contents import ProblemHandler, silent
from dsregress.system.decoding import Damaged
from dsregress.system.files import write_atomically

_LOG = logging.getLogger(__package__)

#: The name of the folder within the results.
FOLDER = "details"

#: Letters of a hash in a file's name: of a thousand million parts, two share a name with a chance of 3 %.
_NAME_LENGTH = 16


class Details:
    """The details under one folder of results."""

    def __init__(self, results: str) -> None:
        self._folder = os.path.join(results, FOLDER)

    def write(self, detail: Detail) -> None:
        """Store the parts that do not exist yet, and those that are damaged. Raise OSError."""
        os.makedirs(self._folder, exist_ok=True)
        for part in schema.encode_parts(detail).values():
            sha256 = hashlib.sha256(part).hexdigest()
            if self._part(sha256) is None:
                file = self._file_of(sha256)
                write_atomically(file, gzip.compress(part, mtime=0))
                _LOG.debug("wrote %s", file)

    def read(self, hashes: Mapping[str, str], problem: ProblemHandler = silent) -> Detail | None:
        """Return the detail whose parts have these hashes; None if one of them is missing or damaged. ``problem`` gets those
        that are damaged."""
        parts = {name: part for name, sha256 in hashes.items() if (part := self._part(sha256, problem)) is not None}
        if not parts or len(parts) < len(hashes):
            return None
        try:
            return schema.decode_parts(parts)
        except schema.NotAResult:
            return None

    def _part(self, sha256: str, problem: ProblemHandler = silent) -> bytes | None:
        file = self._file_of(sha256)
        try:
            part = contents.read_compressed(file)
            if hashlib.sha256(part).hexdigest() != sha256:
                raise Damaged("its content does not match its name")
        except FileNotFoundError:
            return None
        except (OSError, Damaged) as error:
            problem(file, contents.why_unread(error))
            return None
        return part

    def _file_of(self, sha256: str) -> str:
        return os.path.join(self._folder, f"{sha256[:_NAME_LENGTH]}.json.gz")
