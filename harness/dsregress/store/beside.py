"""Other JSON files at the top of a folder of results and of its bundles, such as answers of commands."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dsregress.errors import ResultsError
from dsregress.store import bundle_file, contents
from dsregress.store.contents import ProblemHandler, silent, why_unread


def files_beside(folder: str, problem: ProblemHandler = silent) -> Iterator[tuple[str, bytes]]:
    """Yield ``(path, content)``, sorted by path. If a bundle has nothing but results, only its first line is read.
    ``problem`` gets the files that cannot be read."""
    for name in _json_names(folder, problem):
        path = os.path.join(folder, name)
        if name.endswith(bundle_file.SUFFIX):
            try:
                inside = contents.file_names(path) if bundle_file.read_header(path).lines.get("other") else []
            except (OSError, ResultsError) as error:
                problem(path, str(error))
                continue
        else:
            path, inside = folder, [name]
        for file in inside:
            if file.endswith(".json"):
                yield from _read_json_files(os.path.join(path, file), problem)


def _json_names(folder: str, problem: ProblemHandler) -> list[str]:
    try:
        return contents.file_names(folder)
    except OSError as error:
        problem(folder, why_unread(error))
        return []


def _read_json_files(file: str, problem: ProblemHandler) -> Iterator[tuple[str, bytes]]:
    try:
        yield file, contents.read_bytes(file)
    except OSError as error:
        problem(file, why_unread(error))
