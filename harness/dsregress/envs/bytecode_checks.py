"""Finds shared bytecode that has changed since Python wrote it, and removes it, so that Python compiles it anew.

A damaged file would fail every release that imports it, in every environment, or change its results. So digests of compiled
files are kept next to them after a run, and compared before the next. Whether a file without a digest, as a killed run
leaves it, can be read is decided by Python.

<folder>/bytecode/<distribution>-<version>-<hash of its RECORD>/.digests    file -> SHA-256
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.system.decoding import Damaged, decoded
from dsregress.system.files import write_atomically

_DIGESTS = ".digests"

#: The script that an interpreter reads files with.
_READER = Path(__file__).with_name("bytecode_reader.py")
_READING_S = 120.0

_decoder = msgspec.json.Decoder(dict[str, str])


def check_bytecode(folder: Path, entries: Iterable[str], python: Path) -> tuple[str, ...]:
    """Remove the bytecode that is not as Python wrote it, in these ``entries`` of ``folder``.

    ``python`` is the interpreter that imports it. Return a line for the user for each entry that had any. Raise OSError.
    """
    lines = []
    for entry in entries:
        place = folder / entry
        known = _read_digests(place)
        found = {file: _file_digest(place / file) for file in _compiled(place)}
        damaged = [file for file, digest in found.items() if digest != known.get(file, digest) or not digest]
        fresh = [file for file in found if file not in known and file not in damaged]
        damaged += [fresh[index] for index in _unreadable([place / file for file in fresh], python)]
        for file in damaged:
            (place / file).unlink(missing_ok=True)
            del found[file]
        if found != known:
            _write_digests(place, found)
        if damaged:
            more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
            package = entry.rpartition("-")[0]
            lines.append(f"{package}: {damaged[0]}{more}: not what Python compiled; removed, to be compiled again")
    return tuple(lines)


def record_bytecode(folder: Path) -> None:
    """Keep the digests of the files that Python has compiled since the last time, in all entries of ``folder``. Raise
    OSError."""
    for place in folder.iterdir() if folder.is_dir() else ():
        known = _read_digests(place)
        fresh = {file: _file_digest(place / file) for file in _compiled(place) if file not in known}
        if fresh:
            _write_digests(place, known | fresh)


def _compiled(place: Path) -> list[str]:
    return [
        os.path.relpath(os.path.join(inner, name), place)
        for inner, _, names in os.walk(place)
        for name in names
        if name.endswith(".pyc")
    ]


def _file_digest(file: Path) -> str:
    """Return the digest of a file's content, empty if Python cannot have written it: a pipe, a device, a giant."""
    try:
        return hashlib.sha256(read_regular(file, MOST_FILE_BYTES)).hexdigest()
    except OSError:
        return ""


def _unreadable(files: Sequence[Path], python: Path) -> list[int]:
    """Return the indexes of the files that are no bytecode."""
    found: list[int] = []
    first = 0
    while first < len(files):
        done = subprocess.run(
            [str(python), "-I", "-S", str(_READER)],
            input=json.dumps([str(file) for file in files[first:]]),
            capture_output=True,
            text=True,
            timeout=_READING_S,
            check=False,
        )
        lines = [line.split() for line in done.stdout.splitlines()]
        found += [first + int(place) for word, place in lines if word == "damaged"]
        if done.returncode == 0 or not lines:
            break
        last = first + int(lines[-1][1])
        found += [last] if last not in found else []
        first = last + 1
    return found


def _read_digests(place: Path) -> dict[str, str]:
    try:
        return decoded(_decoder, read_regular(place / _DIGESTS, MOST_FILE_BYTES))
    except (OSError, Damaged):
        return {}


def _write_digests(place: Path, digests: dict[str, str]) -> None:
    write_atomically(place / _DIGESTS, json.dumps(digests).encode(), durable=False)
