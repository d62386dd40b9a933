"""Configuration files as values, with dotted keys."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import hjson
import msgspec

from dsregress.advisories.job_facts import Fact
from dsregress.errors import UsageError
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular


class Document:
    """A configuration file, or the options of a launch line. ``file`` is its name as the reader gave it; ``dashes`` stand
    before its keys."""

    def __init__(self, values: Mapping[str, Any], file: str, dashes: str = "") -> None:
        self.values = values
        self.file = file
        self._dashes = dashes

    def get(self, key: str) -> Any:
        """Return the value of a dotted key; None if the file does not have it."""
        found: Any = self.values
        for part in key.split("."):
            if not isinstance(found, Mapping):
                return None
            found = found.get(part)
        return found

    def fact(self, name: str, value: Any, key: str) -> Fact:
        """Return a fact that a key states, by its value or by its absence."""
        absent = "" if self.get(key) is not None else "no "
        return Fact(name=name, value=value, source=f"{self.file}: {absent}{self._dashes}{key}")

    def usual(self, name: str, value: object, key: str) -> Fact:
        """Return a fact that a key states unless another place says otherwise."""
        return msgspec.structs.replace(self.fact(name, value, key), yields=True)

    def __iter__(self) -> Iterator[str]:
        """Yield the keys of its first level."""
        yield from self.values


def without_sharding(document: Document, key: str) -> Iterator[Fact]:
    """Yield that neither DeepSpeed nor FSDP is used, which a file or option of another place may change."""
    yield document.usual("deepspeed", False, key)
    yield document.usual("fsdp", False, key)


def read_document(file: str, folder: Path = Path(), where: str = "--config") -> Document:
    """Return a JSON or YAML file. Raise UsageError, which names the file and the line."""
    try:
        data = read_regular(str(folder / file), MOST_FILE_BYTES, follow_links=True)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", where=where, hint="name a readable file") from None
    return Document(_decoded(data, file), file)


class _DuplicateKey(Exception):
    """A key that an object of JSON has twice."""


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKey(key)
        found[key] = value
    return found


def _decoded(data: bytes, file: str) -> Mapping[str, Any]:
    is_json = file.endswith(".json")
    try:
        values = _json_values(data) if is_json else msgspec.yaml.decode(data)
    except _DuplicateKey as error:
        what = f"has {error} twice, which DeepSpeed refuses"
        raise UsageError(what, where=file, hint="leave one of them out") from None
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"not valid {'JSON' if is_json else 'YAML'}: {reason}", where=file, hint="mend the file"
        ) from None
    if not isinstance(values, Mapping):
        raise UsageError("no settings in it", where=file, hint="name a file of DeepSpeed, accelerate or a trainer")
    return values


def _json_values(data: bytes) -> object:
    """Return what JSON holds, or HJSON, as which DeepSpeed reads its own files: people put comments into them. Raise
    `_DuplicateKey`; `ValueError` with JSON's reason if it is neither."""
    try:
        return json.loads(data, object_pairs_hook=_refuse_duplicates)
    except ValueError as error:
        try:
            return hjson.loads(data.decode(), object_pairs_hook=_refuse_duplicates)
        except ValueError:
            raise error from None


def as_switch(value: Any) -> bool | None:
    """Return a value that is on or off, as YAML and command lines write it; None for any other."""
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("true", "yes", "1", "on"):
        return True
    return False if text in ("false", "no", "0", "off") else None


def as_number(value: Any) -> int | float | None:
    """Return a number, also if it is written as text; None for any other value."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 1e15 else number
