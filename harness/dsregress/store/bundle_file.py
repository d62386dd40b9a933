"""A published run in one file: the files of a results folder, one JSON object a line, compressed by gzip.

    zcat RUN.jsonl.gz | head -1                                                       its header
    zcat RUN.jsonl.gz | jq -r 'select(.kind == "result") | .content.cell.scenario'    its results

The first line is the header. Each other line is one file: ``kind``, ``path`` in the folder, and ``content``, the file's JSON
byte for byte; a file that is not a single line of JSON is a string in ``text``. Each line ends with its checksum
(`dsregress.store.checksum`). Files that a folder keeps compressed are decompressed in a bundle. Similar lines are
neighbours, which halves the size. Equal folders make equal bytes.
"""

from __future__ import annotations

import functools
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from dsregress.errors import ResultsError
from dsregress.probe.border.untrusted import open_regular
from dsregress.store.checksum import is_as_written, with_checksum
from dsregress.system.decoding import Damaged, decoded

#: The end of every bundle's name.
SUFFIX = ".jsonl.gz"

#: History: 1  2026-11  First.
#:          2  2026-11  Each line ends with its checksum. A line that does not match its own is not read, nor is a bundle
#:                      believed that lacks lines.
SCHEMA = 2

_CHECKSUMS_SINCE = 2

_CHANGED = "damaged or edited after it was written: its checksum does not match; fetch the bundle again"

#: The longest line that is read: the largest published one has 98 KB.
MOST_LINE_BYTES = 1 << 25

#: Most bytes of a bundle that are read, decompressed: 200,000 results. A small file may decompress to more than any machine
#: holds.
MOST_BYTES = 1 << 31

#: Damaged lines that are named one by one.
_MOST_PROBLEMS = 100

#: Kinds of lines. Results come first.
KINDS = ("result", "benchmark", "explanation", "detail", "other")

_KIND = "bundle"

#: The start of the content key in a result's name, between the workload, which ends in a device mode, and what may follow. A
#: variant may have something like it.
KEY = re.compile(r"(?:(?<=-sim)|(?<=-cpu)|(?<=-cuda))-[0-9a-f]{12}(?=[-.])")

#: A path in a results folder: no hidden part, none that leads out of it.
_PATH = re.compile(r"(?:[^/\x00-\x1f.][^/\x00-\x1f]*/){0,2}[^/\x00-\x1f.][^/\x00-\x1f]*")


class Header(msgspec.Struct, frozen=True):
    """The header of a bundle: its format, and the number of lines of each kind."""

    schema: int
    kind: str
    about: str
    lines: dict[str, int]


class Entry(NamedTuple):
    """One file to be bundled."""

    kind: str
    path: str
    data: bytes  #: not compressed


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str
    path: str
    content: msgspec.Raw = msgspec.Raw(b"")
    text: str = ""


_ABOUT = "results of dsregress, one file of a results folder a line; see docs/results.md"

_header_decoder = msgspec.json.Decoder(Header)
_line_decoder = msgspec.json.Decoder(_Line)
_check_json = msgspec.json.Decoder(msgspec.Raw).decode
_encode = msgspec.json.Encoder().encode


def pack(entries: list[Entry]) -> bytes:
    """Return the whole bundle. Raise msgspec.DecodeError if the ``data`` of an entry is not JSON."""
    entries = sorted(entries, key=_neighbours)
    counts = {kind: sum(entry.kind == kind for entry in entries) for kind in KINDS}
    packed = io.BytesIO()
    # Not gzip.compress, whose header differs between Pythons.
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as stream:
        stream.write(with_checksum(_encode(Header(SCHEMA, _KIND, _ABOUT, counts))) + b"\n")
        for entry in entries:
            stream.write(_encoded_entry(entry) + b"\n")
    return packed.getvalue()


def _neighbours(entry: Entry) -> tuple[int, str, bytes, str]:
    """Return the sort key of an entry. Results of one workload are neighbours in the order of their stacks; all other
    entries are sorted by their content."""
    if entry.kind == "result":
        _, _, workload = entry.path.partition("/")
        return KINDS.index(entry.kind), KEY.sub("", workload), b"", entry.path
    return KINDS.index(entry.kind), "", entry.data, entry.path


def _encoded_entry(entry: Entry) -> bytes:
    content = entry.data.removesuffix(b"\n")
    _check_json(content)
    if b"\n" in content:
        line = _Line(entry.kind, entry.path, text=entry.data.decode())
    else:
        line = _Line(entry.kind, entry.path, content=msgspec.Raw(content))
    return with_checksum(_encode(line))


class Bundle:
    """An opened bundle. Lines that cannot be read are listed in ``problems``, and left out."""

    def __init__(self, file: str) -> None:
        """Read the whole file. Raise OSError, and ResultsError for a file that is no bundle or a newer one."""
        self._files: dict[str, _Line] = {}
        self._folders: dict[str, set[str]] = {}
        self._names: dict[str, list[str]] = {}
        problems: list[str] = []
        damaged = number = 0
        with (
            open(open_regular(file, follow_links=True), "rb") as packed,
            gzip.GzipFile(fileobj=packed) as stream,
        ):
            lines = _numbered_lines(stream, problems)
            _, first = next(lines, (1, b""))
            self.header = _decode_header(first, file)
            if not self._is_as_written(first):
                problems.append(f"line 1: {_CHANGED}")
            for number, line in lines:
                if why := self._add(line):
                    damaged += 1
                    if damaged <= _MOST_PROBLEMS:
                        problems.append(f"line {number}: {why}")
        listed = 1 + sum(self.header.lines.values())
        if not problems and number != listed:
            problems.append(f"damaged: it has {number} lines, and its first one lists {listed}; fetch the bundle again")
        if damaged > _MOST_PROBLEMS:
            problems.append(f"{damaged - _MOST_PROBLEMS} more lines: damaged")
        shown = os.path.basename(file)
        self.problems = tuple(f"{shown}: {why}" for why in problems)
        for names in self._names.values():
            names.sort()

    def paths(self) -> list[str]:
        """Return the paths of all its files, in the order of its lines."""
        return list(self._files)

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder, sorted."""
        return list(self._names.get(folder, ()))

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder, sorted."""
        return sorted(self._folders.get(folder, ()))

    def read(self, path: str) -> bytes:
        """Return a file's bytes, never compressed. Raise FileNotFoundError."""
        line = self._files.get(path)
        if line is None:
            raise FileNotFoundError(2, "No such file in the bundle", path)
        return bytes(line.content) or line.text.encode()

    def _is_as_written(self, data: bytes) -> bool:
        return self.header.schema < _CHECKSUMS_SINCE or is_as_written(data)

    def _add(self, data: bytes) -> str:
        """Keep a line. Return the reason if it cannot be kept, else an empty text."""
        try:
            line = decoded(_line_decoder, data)
        except Damaged as error:
            return f"damaged: {error}"
        if not _PATH.fullmatch(line.path):
            return f"damaged: {line.path[:80]!r} is not a path in a results folder"
        if not self._is_as_written(data):
            return f"{line.path}: {_CHANGED}"
        if line.path in self._files:
            return f"{line.path}: a second time"
        self._files[line.path] = line
        folder, _, name = line.path.rpartition("/")
        self._names.setdefault(folder, []).append(name)
        while folder:
            folder, _, name = folder.rpartition("/")
            self._folders.setdefault(folder, set()).add(name)
        return ""


def read_header(file: str) -> Header:
    """Return a bundle's header from its first line alone. Raise as `Bundle`."""
    with open(open_regular(file, follow_links=True), "rb") as packed, gzip.GzipFile(fileobj=packed) as stream:
        _, first = next(_numbered_lines(stream, []), (1, b""))
        return _decode_header(first, file)


def opened(file: str) -> Bundle:
    """Return the bundle in a file, read once as long as it stays the same. Raise as `Bundle`."""
    state = os.stat(file)
    return _opened(file, state.st_mtime_ns, state.st_size)


@functools.cache
def _opened(file: str, changed_ns: int, size: int) -> Bundle:
    return Bundle(file)


def _decode_header(line: bytes, file: str) -> Header:
    try:
        header = decoded(_header_decoder, line)
    except Damaged:
        header = Header(0, "", "", {})
    if header.kind != _KIND:
        raise ResultsError("not a bundle of results", where=file, hint="`bundle FOLDER` makes one")
    if header.schema > SCHEMA:
        raise ResultsError(
            f"written by a newer version (schema {header.schema}, this one reads up to {SCHEMA})",
            where=file,
            hint="update dsregress",
        )
    return header


def _numbered_lines(stream: gzip.GzipFile, problems: list[str]) -> Iterator[tuple[int, bytes]]:
    """Yield ``(number, line)`` of the lines that can be decompressed. Hold one line at a time, and none that is too long."""
    number = 0
    try:
        while line := stream.readline(MOST_LINE_BYTES):
            number += 1
            if len(line) < MOST_LINE_BYTES or line.endswith(b"\n"):
                yield number, line
            else:
                problems.append(f"line {number}: damaged: longer than {MOST_LINE_BYTES >> 20} MiB")
                while (rest := stream.readline(MOST_LINE_BYTES)) and not rest.endswith(b"\n"):
                    _check_size(stream)
            _check_size(stream)
    except (OSError, EOFError, zlib.error) as error:  # gzip.BadGzipFile is an OSError
        problems.append(f"damaged, or cut off, after line {number}: {error}")
    except _TooLarge:
        problems.append(
            f"damaged: left out after line {number}, as it decompresses to more than {MOST_BYTES >> 20} MiB"
        )
    except MemoryError:
        problems.append(f"left out after line {number}: the rest needs more memory than there is")


class _TooLarge(Exception):
    """A bundle decompresses to more than is read."""


def _check_size(stream: gzip.GzipFile) -> None:
    if stream.tell() > MOST_BYTES:
        raise _TooLarge
