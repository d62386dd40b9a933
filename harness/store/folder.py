"""The results folder: one file per run, written whole or not at all, never overwritten.

    RESULTS/<stack id>/<scenario>/<variant>/<device>-<key>.json             the first run of this content
    RESULTS/<stack id>/<scenario>/<variant>/<device>-<key>-<session>.json   a later one of the same content
    ... .benchmark.json                                                     the same run, for pytest-benchmark's tools

``key`` is the start of the content key (see `harness.store.schema.content_key`). What cannot be read is reported, one
line each, and left as it is: it is somebody's measurement.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import ResultsError, UsageError
from harness.model import Cell, Result
from harness.probe.wire import Detail
from harness.store import schema

#: One part of a path: no separator, no leading dot, nothing that a shell or another system would trip over.
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._,=+@!-]{0,199}")

_BENCHMARK = ".benchmark.json"

#: Read of a file at first: more than the head of a result with tens of ranks.
_HEAD_BYTES = 1 << 15


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder held."""

    results: tuple[Result, ...]
    problems: tuple[str, ...]  #: one line for each file that could not be read


class Store:
    """The results under one folder. The folder appears with the first result."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.abspath(folder)

    def check_writable(self) -> None:
        """Find out before hours of measurement whether results can be kept. Raises ResultsError."""
        with self._explained(self.folder):
            os.makedirs(self.folder, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".writable-"):
                pass

    def write(self, result: Result, detail: Detail | None = None, benchmark: Mapping[str, Any] | None = None) -> str:
        """Store one run; returns its file. Raises ResultsError, UsageError for a name that is no file name."""
        stem = self._stem(result.cell, schema.key_of(result))
        if os.path.exists(f"{stem}.json"):
            stem = f"{stem}-{_checked(result.session, 'session')}"
        file = f"{stem}.json"
        if os.path.exists(file):
            raise ResultsError("there already, and results are never overwritten", where=file, hint="move it away")
        with self._explained(file):
            os.makedirs(os.path.dirname(file), exist_ok=True)
            if benchmark is not None:  # first: a result whose companion is missing would never get it
                write_atomically(f"{stem}{_BENCHMARK}", json.dumps(benchmark, indent=1).encode())
            write_atomically(file, schema.encode(result, detail))
        return file

    def of_cell(self, cell: Cell, key: str) -> Loaded:
        """Every run of this content, oldest first."""
        stem = self._stem(cell, key)
        folder, name = os.path.split(stem)
        files = [file for file in _result_files(folder) if os.path.basename(file).startswith(name)]
        loaded = self._read(files)
        results = sorted(loaded.results, key=lambda result: (result.started_at, result.session))
        return Loaded(results=tuple(results), problems=loaded.problems)

    def last_run(self, cell: Cell) -> Result | None:
        """The newest run of this stack, scenario, variant and device, whatever else has changed since."""
        folder, name = os.path.split(self._stem(cell, ""))
        files = [file for file in _result_files(folder) if os.path.basename(file).startswith(name)]
        return newest(self._read(files).results).get(cell.id)

    def load(self, stacks: Iterable[str] | None = None) -> Loaded:
        """Every result there is (of the stacks with these ids), without details. No folder: no results."""
        problems: list[str] = []
        results = tuple(self.stream(problems.append, stacks))
        return Loaded(results=results, problems=tuple(problems))

    def stream(self, problem: Callable[[str], None], stacks: Iterable[str] | None = None) -> Iterator[Result]:
        """As `load`, one after another, for more results than fit into memory. ``problem`` is told what is left out."""
        folders = [self.folder] if stacks is None else [os.path.join(self.folder, _checked(s, "stack")) for s in stacks]
        return self._stream((file for folder in folders for file in _result_files(folder)), problem)

    def stack_ids(self) -> list[str]:
        """The stacks that have results, sorted."""
        try:
            with os.scandir(self.folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir() and _SAFE.fullmatch(entry.name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _cannot(error, self.folder) from None

    def _read(self, files: Iterable[str]) -> Loaded:
        problems: list[str] = []
        results = tuple(self._stream(files, problems.append))
        return Loaded(results=results, problems=tuple(problems))

    def _stream(self, files: Iterable[str], problem: Callable[[str], None]) -> Iterator[Result]:
        """These files, in order. What cannot be read becomes a problem, never an error."""
        for file in files:
            try:
                result = schema.decode(_read_head(file))
            except schema.NotAResult as error:
                problem(f"{self._shown(file)}: {error}")
            except OSError as error:
                problem(f"{self._shown(file)}: {error.strerror}")
            else:
                yield result

    def detail(self, result: Result) -> Detail | None:
        """What `load` left out of a result; None where its file is gone or damaged."""
        stem = self._stem(result.cell, schema.key_of(result))
        for file in (f"{stem}-{result.session}.json", f"{stem}.json"):
            with contextlib.suppress(OSError, schema.NotAResult):
                return schema.decode_detail(Path(file).read_bytes())
        return None

    def _stem(self, cell: Cell, key: str) -> str:
        parts = [_checked(cell.stack.id, "stack"), _checked(cell.scenario, "scenario")]
        parts += [_checked(cell.variant, "variant"), f"{_checked(cell.device, 'device')}-{key[:12]}"]
        return os.path.join(self.folder, *parts)

    def _shown(self, file: str) -> str:
        return os.path.relpath(file, os.path.dirname(self.folder))

    @contextlib.contextmanager
    def _explained(self, file: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _cannot(error, file) from None


def write_atomically(file: str, data: bytes) -> None:
    """Replace ``file`` by ``data`` so that a reader, or a crash at any moment, sees the old or the new, never a part.

    Raises OSError.
    """
    folder = os.path.dirname(os.path.abspath(file))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".partial-")
    try:
        with open(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's 0600 would hide it from whoever publishes the folder
        os.replace(temporary, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def newest(results: Iterable[Result]) -> dict[str, Result]:
    """Cell id -> its newest result."""
    found: dict[str, Result] = {}
    for result in results:
        other = found.get(result.cell.id)
        if other is None or (result.started_at, result.session) > (other.started_at, other.session):
            found[result.cell.id] = result
    return found


def _result_files(folder: str) -> Iterator[str]:
    """Result files below a folder, in a stable order. Links are not followed, dot files not looked at."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _cannot(error, folder) from None
    for entry in found:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _result_files(entry.path)
        elif entry.name.endswith(".json") and not entry.name.endswith(_BENCHMARK):
            yield entry.path


def _read_head(file: str) -> bytes:
    handle = os.open(file, os.O_RDONLY)
    try:
        data = os.read(handle, _HEAD_BYTES)
        if len(data) == _HEAD_BYTES and not schema.has_whole_head(data):
            with open(handle, "rb", closefd=False) as stream:
                data += stream.read()
        return data
    finally:
        os.close(handle)


def _checked(part: str, what: str) -> str:
    if not _SAFE.fullmatch(part):
        raise UsageError(
            f"{what} {part!r} cannot name a folder of results",
            hint="use letters, digits and . _ , = + @ ! -, at most 200 characters",
        )
    return part


def _cannot(error: OSError, file: str) -> ResultsError:
    hints = {
        errno.ENOSPC: "free some space, or choose another folder with --results",
        errno.EDQUOT: "free some space, or choose another folder with --results",
        errno.EROFS: "choose another folder with --results",
        errno.EACCES: "check its access, or choose another folder with --results",
    }
    hint = hints.get(error.errno or 0, "choose another folder with --results")
    return ResultsError(f"cannot be used for results: {error.strerror}", where=file, hint=hint)
