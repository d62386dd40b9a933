"""Other JSON files at the top of a folder of results and of its bundles, such as answers of commands."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dsregress.errors import ResultsError
from dsregress.store import bundle, contents
from dsregress.store.contents import ProblemHandler, silent, why_unread


def files_beside(folder: str, problem: ProblemHandler = silent) -> Iterator[tuple[str, bytes]]:
    """Yield ``(path, content)``, sorted by path. If a bundle has nothing but results, only its first line is read.
    ``problem`` gets the files that cannot be read."""
    for name in _names(folder, problem):
        path = os.path.join(folder, name)
        if name.endswith(bundle.SUFFIX):
            try:
                inside = contents.names(path) if bundle.header(path).lines.get("other") else []
            except (OSError, ResultsError) as error:
                problem(path, str(error))
                continue
        else:
            path, inside = folder, [name]
        for file in inside:
            if file.endswith(".json"):
                yield from _read(os.path.join(path, file), problem)


def _names(folder: str, problem: ProblemHandler) -> list[str]:
    try:
        return contents.names(folder)
    except OSError as error:
        problem(folder, why_unread(error))
        return []


def _read(file: str, problem: ProblemHandler) -> Iterator[tuple[str, bytes]]:
    try:
        yield file, contents.read(file)
    except OSError as error:
        problem(file, why_unread(error))
