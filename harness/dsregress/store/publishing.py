"""A folder of results as the files of a bundle: every file that is sound, in the order of the folder."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from dsregress.errors import NothingMeasured, ResultsError, UsageError
from dsregress.store import bundle_file, contents, details, explanations, schema
from dsregress.store.bundle_file import Entry
from dsregress.store.folder import BENCHMARK, is_named
from dsregress.system.decoding import Damaged, decoded
from dsregress.system.files import create_atomically
from dsregress.system.obstacles import obstacle_error
from dsregress.wording import commands

_LOG = logging.getLogger(__package__)

_ANY = msgspec.json.Decoder()


class WrittenBundle(NamedTuple):
    """The result of bundling a folder."""

    lines: dict[str, int]  #: kind -> files of it in the bundle
    size_bytes: int  #: of the bundle
    problems: tuple[str, ...]  #: what was left out, one line each


def publish(folder: str, output: str) -> WrittenBundle:
    """Bundle a folder, whole or not at all.

    Raise UsageError if the output already exists or its name is not a bundle's, NothingMeasured if the folder has no result,
    ResultsError if one of them cannot be used.
    """
    folder = os.path.abspath(folder)
    if not output.endswith(bundle_file.SUFFIX):
        raise UsageError(
            f"a bundle's name ends with {bundle_file.SUFFIX}", where=output, hint="choose another --output"
        )
    if os.path.lexists(output):
        raise _there_already(output)
    problems = list(contents.unreadable_parts(folder))
    entries: list[Entry] = []
    try:
        for path in _paths(folder):
            try:
                entries.append(_bundle_entry(folder, path))
            except _Unsound as error:
                problems.append(f"{path}: {error}")
        if not any(entry.kind == "result" for entry in entries):
            raise NothingMeasured("no results", where=folder, hint=f"`{commands.regress()}` measures some")
        data = bundle_file.pack(entries)
        create_atomically(output, data)
        _LOG.debug("wrote %s", output)
    except FileExistsError:  # made while this one was
        raise _there_already(output) from None
    except OSError as error:
        raise obstacle_error(
            ResultsError, "cannot be bundled", error, where=error.filename or output, hint="choose another --output"
        ) from None
    counts = {kind: sum(entry.kind == kind for entry in entries) for kind in bundle_file.KINDS}
    return WrittenBundle(counts, len(data), tuple(problems))


class UnpackedBundle(NamedTuple):
    """The result of unpacking a bundle."""

    written: int
    kept: int  #: files that the folder already has, with the same content
    problems: tuple[str, ...]  #: files that were left out, one line each


def unpack(file: str, folder: str) -> UnpackedBundle:
    """Restore the folder that a bundle was made from, except for a newline at the end of a file. Existing files are never
    replaced.

    Raise UsageError if the file's name is not a bundle's, ResultsError if it cannot be read or the folder cannot be written.
    """
    file = os.path.abspath(file)
    if not contents.is_bundle(file):
        raise UsageError(f"not a bundle: bundles end with {bundle_file.SUFFIX}", where=file, hint="name one")
    written = kept = 0
    try:
        opened = bundle_file.opened(file)
        problems = list(opened.problems)
        for path in opened.paths():
            data, target = opened.read(path), os.path.join(folder, path)
            is_compressed = path.endswith(".gz")  # as the folder had it
            os.makedirs(os.path.dirname(target), exist_ok=True)
            try:
                create_atomically(target, gzip.compress(data, mtime=0) if is_compressed else data)
                written += 1
            except FileExistsError:
                if _holds(target, data, is_compressed=is_compressed):
                    kept += 1
                else:
                    problems.append(f"{path}: already exists with different content")
    except OSError as error:
        where = error.filename or folder
        raise obstacle_error(
            ResultsError, "cannot be unpacked", error, where=where, hint="choose another --output"
        ) from None
    return UnpackedBundle(written, kept, tuple(problems))


def _holds(file: str, data: bytes, *, is_compressed: bool) -> bool:
    """Return True if a file has this content, however it is compressed: releases of zlib differ. Raise OSError."""
    try:
        return (contents.read_compressed(file) if is_compressed else contents.read_bytes(file)) == data
    except Damaged:
        return False


def _there_already(output: str) -> UsageError:
    return UsageError("already exists", where=output, hint="move it away, or choose another --output")


class _Unsound(Exception):
    """The reason why a file is left out."""


def _paths(folder: str) -> Iterator[str]:
    """Yield every file that may be a result's: ``NAME.json``, ``details/NAME``, ``STACK/NAME`` and
    ``STACK/SCENARIO/NAME``. A folder with a README is a page about results, not a stack."""
    yield from (name for name in contents.file_names(folder) if name.endswith(".json"))
    for stack in map(os.path.basename, contents.subfolders(folder)):
        inside = os.path.join(folder, stack)
        names = contents.file_names(inside)
        if "README.md" in names:
            continue
        yield from (f"{stack}/{name}" for name in names)
        if stack != details.FOLDER:
            for scenario in map(os.path.basename, contents.subfolders(inside)):
                yield from (
                    f"{stack}/{scenario}/{name}" for name in contents.file_names(os.path.join(inside, scenario))
                )


def _bundle_entry(folder: str, path: str) -> Entry:
    """Return the file as an entry of the bundle. Raise _Unsound."""
    file = os.path.join(folder, path)
    first, _, name = path.rpartition("/")
    if first == details.FOLDER and name.endswith(".json.gz"):
        try:
            data = contents.read_compressed(file)
        except (OSError, Damaged) as error:
            raise _Unsound(contents.why_unread(error)) from None
        if name.startswith(explanations.PREFIX):
            return _sound_entry("explanation", path, data)
        if not hashlib.sha256(data).hexdigest().startswith(name.removesuffix(".json.gz")):
            raise _Unsound("damaged: its content does not match its name")
        return _sound_entry("detail", path, data)
    if not name.endswith(".json"):
        raise _Unsound("not a file of results")
    try:
        data = contents.read_bytes(file)
    except OSError as error:
        raise _Unsound(contents.why_unread(error)) from None
    if name.endswith(BENCHMARK):
        return _sound_entry("benchmark", path, data)
    if "/" not in first:
        return _sound_entry("other", path, data)
    try:
        result = schema.decode(data)
    except schema.NotAResult as error:
        raise _Unsound(str(error)) from None
    if not is_named(file, result.cell):
        raise _Unsound(f"named wrongly, it holds {result.cell.id}")
    return _sound_entry("result", path, data)


def _sound_entry(kind: str, path: str, data: bytes) -> Entry:
    try:
        decoded(_ANY, data)
    except Damaged as error:
        raise _Unsound(f"damaged: {error}") from None
    return Entry(kind, path, data)
