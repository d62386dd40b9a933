"""Selects the result files that count: each is as it was written, and no two report the same run differently."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dsregress.model import Result
from dsregress.store import schema
from dsregress.store.bundle_file import KEY
from dsregress.store.folder import read_result


class LeftOut(NamedTuple):
    """A file that does not count."""

    file: str
    why: str
    is_disputed: bool = False  #: its content may differ from the measurement, so no other result of its cell counts


def believed(files: Iterable[str], left_out: list[LeftOut]) -> Iterator[Result]:
    """Yield the results that count in some files. Files of one content, wherever they are, are read together."""
    by_content: dict[tuple[str, str], list[str]] = defaultdict(list)
    for file in files:
        by_content[_content_path(file)].append(file)
    for alike in by_content.values():
        yield from _undisputed(_read_results(alike, left_out), left_out)


def _content_path(file: str) -> tuple[str, str]:
    """Return the stack, and the rest of the path up to the end of the key: the part that all runs of one content share."""
    *_, stack, scenario, name = file.split("/")
    found = KEY.search(name)
    return stack, f"{scenario}/{name[: found.end()] if found else name}"


def _read_results(files: Iterable[str], left_out: list[LeftOut]) -> Iterator[tuple[str, Result]]:
    for file in files:
        try:
            yield file, read_result(file)
        except schema.NotAResult as error:
            left_out.append(LeftOut(file, str(error), isinstance(error, schema.ChangedError)))


def _undisputed(found: Iterable[tuple[str, Result]], left_out: list[LeftOut]) -> Iterator[Result]:
    """Yield the results whose run is reported in one way alone: copies of a result agree, unless one of them was changed."""
    by_run: dict[tuple[str, str, str], list[tuple[str, Result]]] = defaultdict(list)
    for file, result in found:
        by_run[(result.cell.id, *result.when)].append((file, result))
    for copies in by_run.values():
        (first, told), *others = copies
        differing = [file for file, result in others if schema.encode(result) != schema.encode(told)]
        if not differing:
            yield from (result for _, result in copies)
        for file in differing:
            told_by = f"the same run as {os.path.relpath(first)}, with other figures"
            why = f"{told_by}: neither counts; leave out the one that was edited"
            left_out.append(LeftOut(file, why, is_disputed=True))
