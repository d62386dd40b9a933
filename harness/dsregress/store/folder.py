"""The results folder: one file per run, written whole or not at all, never overwritten.

    RESULTS/<stack id>/<scenario>/<variant>-<device>-<key>.json             the first run of this content
    RESULTS/<stack id>/<scenario>/<variant>-<device>-<key>-<session>.json   a later one of the same content
    ... .benchmark.json                                                     the same run, for pytest-benchmark's tools
    RESULTS/details/                                                        see `dsregress.store.details`

Workloads have no folders of their own: to list one takes longer than to read its file. ``key`` is the start of the content
key (see `dsregress.store.schema.content_key`). Unreadable files are reported, one line each, and left unchanged: they are
measurements.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import itertools
import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from dsregress.errors import ResultsError, UsageError
from dsregress.model import Cell, Result
from dsregress.probe.border.wire import Detail
from dsregress.store import bundle_file, contents, details, schema
from dsregress.store.contents import ProblemHandler, silent
from dsregress.store.details import Details
from dsregress.system.files import create_atomically
from dsregress.system.obstacles import obstacle_error

_LOG = logging.getLogger(__package__)

#: One part of a path: no separator, no leading dot, nothing that a shell or another system would trip over.
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._,=+@!-]{0,179}")

#: The end of the name of a result's companion for pytest-benchmark's tools.
BENCHMARK = ".benchmark.json"


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a folder of results."""

    results: tuple[Result, ...]
    problems: tuple[str, ...]  #: one line for each file that could not be read


class Store:
    """The results under one folder, which is created with the first result; or those of a bundle, which are only read."""

    def __init__(self, folder: str) -> None:
        """Open a folder or bundle. Raise UsageError for a file whose name is not a bundle's, and for a bundle that does not
        exist."""
        self.folder = os.path.abspath(folder)
        if self.is_bundle and not os.path.exists(self.folder):
            raise UsageError("the bundle does not exist", where=folder, hint="`bundle FOLDER` makes one")
        if os.path.isfile(self.folder) and not self.is_bundle:
            raise UsageError(
                "neither a folder of results nor a bundle", where=folder, hint=f"bundles end with {bundle_file.SUFFIX}"
            )
        self._details = Details(self.folder)
        self._listed: dict[str, list[str]] = {}

    @property
    def is_bundle(self) -> bool:
        """True if it is one file, which is only read."""
        return contents.is_bundle(self.folder)

    def check_writable(self) -> None:
        """Check before hours of measurement that results can be kept. Raise ResultsError if not."""
        if self.is_bundle:
            hint = "unpack it with `bundle --unpack`, or choose another folder with --results"
            raise ResultsError("a bundle is read-only", where=self.folder, hint=hint)
        with self._explained(self.folder):
            os.makedirs(self.folder, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".writable-"):
                pass

    def write(self, result: Result, detail: Detail | None = None, benchmark: Mapping[str, object] | None = None) -> str:
        """Store one run and return its file. Raise ResultsError, or UsageError for a name that is no file name.

        If another process stores a run of the same content at the same time, both are kept.
        """
        first = self.file_of(result)
        later = f"{first.removesuffix('.json')}-{_checked(result.session, 'session')}.json"
        with self._explained(first):
            os.makedirs(os.path.dirname(first), exist_ok=True)
            if detail is not None:  # before the result: one whose companions are missing would never get them
                self._details.write(detail)
            for file in (first, later):
                if self._create(file, result, benchmark):
                    self._listed.pop(os.path.dirname(file), None)
                    _LOG.debug("wrote %s", file)
                    return file
        raise ResultsError("already exists, and results are never overwritten", where=later, hint="move it away")

    def _create(self, file: str, result: Result, benchmark: Mapping[str, object] | None) -> bool:
        """Write a result and its companion; return False if one of this name exists. Raise OSError."""
        if os.path.lexists(file):
            return False
        companion = f"{file.removesuffix('.json')}{BENCHMARK}"
        with contextlib.ExitStack() as on_failure:
            try:
                if benchmark is not None:
                    create_atomically(companion, json.dumps(benchmark, separators=(",", ":")).encode())
                    on_failure.callback(os.unlink, companion)
                create_atomically(file, schema.encode(result))
            except FileExistsError:
                return False
            on_failure.pop_all()
        return True

    def write_detail(self, detail: Detail) -> None:
        """Store the details of results that are not written by `write`. Raise ResultsError."""
        with self._explained(self.folder):
            self._details.write(detail)

    def file_of(self, result: Result) -> str:
        """Return the file of the first result of this content. Raise UsageError for a name that is no file name."""
        return f"{self._stem(result.cell, schema.key_of(result))}.json"

    def of_cell(self, cell: Cell, key: str) -> Loaded:
        """Return every run of this content, the oldest first. Files written before measuring versions have names of other
        keys."""
        named = self._starting_with(self._stem(cell, key))
        loaded = self._read(named)
        others = self._read(file for file in self._starting_with(self._stem(cell, "")) if file not in named).results
        former = (result for result in others if result.cell.id == cell.id and schema.key_of(result) == key)
        results = sorted((*loaded.results, *former), key=lambda result: result.when)
        return Loaded(results=tuple(results), problems=loaded.problems)

    def runs(self, cell: Cell) -> tuple[Result, ...]:
        """Return every run of this stack, scenario, variant and device, the oldest first, whatever has changed between
        them."""
        results = self._read(self._starting_with(self._stem(cell, ""))).results
        own = (result for result in results if result.cell.id == cell.id)
        return tuple(sorted(own, key=lambda result: result.when))

    def last_run(self, cell: Cell) -> Result | None:
        """Return the newest run of this stack, scenario, variant and device, whatever else has changed since."""
        return newest_by_cell(self._read(self._starting_with(self._stem(cell, ""))).results).get(cell.id)

    def runs_of(self, wanted: Callable[[str], bool]) -> tuple[Result, ...]:
        """Return every stored run of the scenarios that ``wanted`` accepts by their names."""
        return self._read(file for file in self.files() if wanted(os.path.basename(os.path.dirname(file)))).results

    def load(self, stacks: Iterable[str] | None = None, scenario: str | None = None) -> Loaded:
        """Return every result (of the stacks with these ids, of one scenario), without details. Without a folder, none."""
        loaded = self._read(self.files(stacks, scenario))
        return msgspec.structs.replace(loaded, problems=(*self.damage(), *loaded.problems))

    def damage(self) -> tuple[str, ...]:
        """Return the parts that a bundle lost before its files could be read; one line each. Raise ResultsError."""
        with self._explained(self.folder):
            return contents.unreadable_parts(self.folder)

    def files(self, stacks: Iterable[str] | None = None, scenario: str | None = None) -> Iterator[str]:
        """Yield the files of results (of one scenario), in order; other files among them are no results."""
        for stack in self.stack_ids() if stacks is None else [_checked(stack, "stack") for stack in stacks]:
            for folder in _sound_folders(os.path.join(self.folder, stack)):
                if scenario is None or os.path.basename(folder) == scenario:
                    yield from _result_files(folder)

    def _starting_with(self, stem: str) -> list[str]:
        """Return the files of results whose path starts with ``stem``. A folder is listed once, as thousands of cells may be
        read."""
        folder = os.path.dirname(stem)
        if folder not in self._listed:
            self._listed[folder] = _result_files(folder)
        files = self._listed[folder]
        first = bisect.bisect_left(files, stem)
        return list(itertools.takewhile(lambda file: file.startswith(stem), files[first:]))

    def stack_ids(self) -> list[str]:
        """Return the stacks that have results, sorted."""
        names = [os.path.basename(folder) for folder in _sound_folders(self.folder)]
        return [name for name in names if name != details.FOLDER and _SAFE.fullmatch(name)]

    def _read(self, files: Iterable[str]) -> Loaded:
        problems: list[str] = []
        results = tuple(result for _, result in readable(files, lambda *why: problems.append(self.problem(*why))))
        return Loaded(results=results, problems=tuple(problems))

    def detail(self, hashes: Mapping[str, str], problem: ProblemHandler = silent) -> Detail | None:
        """Return the detail that explains a result's figures, by its ``detail_sha256``; None if it has none, or its files
        are gone or damaged. ``problem`` gets those that are damaged."""
        return self._details.read(hashes, problem)

    def problem(self, file: str, why: str) -> str:
        """Return one line for the user about a file that could not be read."""
        return f"{os.path.relpath(file, os.path.dirname(self.folder))}: {why}"

    def _stem(self, cell: Cell, key: str) -> str:
        parts = [_checked(cell.stack.id, "stack"), _checked(cell.scenario, "scenario")]
        parts.append(f"{_checked(cell.variant, 'variant')}-{_checked(cell.device, 'device')}-{key[:12]}")
        return os.path.join(self.folder, *parts)

    @contextlib.contextmanager
    def _explained(self, file: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _cannot(error, file) from None


def newest_by_cell(results: Iterable[Result]) -> dict[str, Result]:
    """Return cell id -> its newest result; a measurement of its stack takes precedence over other results."""
    found: dict[str, Result] = {}
    for result in results:
        other = found.get(result.cell.id)
        if other is None or result.precedence > other.precedence:
            found[result.cell.id] = result
    return found


def readable(files: Iterable[str], problem: ProblemHandler) -> Iterator[tuple[str, Result]]:
    """Yield files with their results, in order. ``problem`` gets each file that cannot be read, and why."""
    for file in files:
        try:
            yield file, read_result(file)
        except schema.NotAResult as error:
            problem(file, str(error))


def read_result(file: str) -> Result:
    """Return the result in a file. Raise NotAResult."""
    try:
        result = schema.decode(contents.read_bytes(file))
    except OSError as error:
        raise schema.NotAResult(contents.why_unread(error)) from None
    if not is_named(file, result.cell):
        raise schema.NotAResult(f"named wrongly, it holds {result.cell.id}")
    return result


def is_named(file: str, cell: Cell) -> bool:
    """Return True if the file's path matches the cell it holds."""
    stem = f"/{cell.stack.id}/{cell.scenario}/{cell.variant}-{cell.device}"
    at = len(file)
    for _ in range(3):
        at = file.rfind("/", 0, at)
    return file.startswith(stem, at) and bundle_file.KEY.match(file, at + len(stem)) is not None


def _result_files(folder: str) -> list[str]:
    """Return the files of results in the folder of a scenario, sorted, without hidden ones."""
    try:
        names = contents.file_names(folder)
    except OSError as error:
        raise _cannot(error, folder) from None
    return [f"{folder}/{name}" for name in names if name.endswith(".json") and not name.endswith(BENCHMARK)]


def _sound_folders(folder: str) -> list[str]:
    """Return the folders in a folder, sorted, without links and hidden ones; none if the folder does not exist."""
    try:
        return contents.subfolders(folder)
    except OSError as error:
        raise _cannot(error, folder) from None


def _checked(part: str, what: str) -> str:
    if not _SAFE.fullmatch(part):
        raise UsageError(
            f"{what} {part!r} cannot name a folder of results",
            hint="use letters, digits and . _ , = + @ ! -, at most 180 characters",
        )
    return part


def _cannot(error: OSError, file: str) -> ResultsError:
    hints = {
        errno.ENOSPC: "free disk space, or choose another folder with --results",
        errno.EDQUOT: "free disk space, or choose another folder with --results",
        errno.EROFS: "choose another folder with --results",
        errno.EACCES: "check its permissions, or choose another folder with --results",
    }
    hint = hints.get(error.errno or 0, "choose another folder with --results")
    return obstacle_error(ResultsError, "cannot be used for results", error, where=file, hint=hint)
