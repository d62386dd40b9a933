"""Factors that are data alone: entries of the ``.json`` files beside the modules of `dsregress.probe.factors`.

A file holds the factors of one group of the documentation's table. An entry has the fields of
`dsregress.probe.factor.Factor`, with lists for tuples, ``words`` as pairs, since values need not be strings, and a
template of several lines as the list of them. A field
that a factor lacks, or has in another type, is an error at import. Standard library only, as the host reads it too.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from dsregress.probe.factor import Factor, Fragment, Need
from vgpu.json_tables import decoded_text, decoded_texts

_T = TypeVar("_T")

#: A value in a file.
_Entry = Mapping[str, object]

#: Lists in a file -> tuples of a factor.
_TUPLES = {"values", "further", "known", "needed", "imports", "names"}


def read_factors(folder: Path) -> Iterator[Factor]:
    """Yield the factors of all files in a folder. Raise ValueError if an entry is none."""
    for file in sorted(folder.glob("*.json")):
        found = json.loads(file.read_text(encoding="utf-8"))
        for name, entry in found["factors"].items():
            try:
                yield decode_factor(name, found["group"], entry)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{file.name}: {name}: {error}") from None


def decode_factor(name: str, group: str, entry: _Entry) -> Factor:
    """Return the factor that an entry declares. Raise TypeError or ValueError if it is none."""
    found = dict(entry)
    if "words" in found:
        found["words"] = dict(_pair(one) for one in _list(found["words"], "words"))
    if "needs" in found:
        found["needs"] = tuple(_decoded_record(Need, one) for one in _list(found["needs"], "needs"))
    if "script" in found:
        found["script"] = _fragment(found["script"])
    return _decoded_record(Factor, {"name": name, "group": group, **found})


def _fragment(entry: object) -> Fragment:
    """Return the part of a script, whose templates are texts, or lists of lines."""
    fragment = _decoded_record(Fragment, entry)
    return dataclasses.replace(
        fragment,
        at={
            moment: "\n".join(decoded_texts(template)) if isinstance(template, list) else decoded_text(template)
            for moment, template in fragment.at.items()
        },
    )


def _decoded_record(kind: type[_T], entry: object) -> _T:
    """Return the object of a dataclass with these fields, each of the type that its declaration has."""
    if not isinstance(entry, Mapping):
        raise ValueError(f"{entry!r} is not an object")
    types = {field.name: field.type for field in dataclasses.fields(kind)}  # type: ignore[arg-type]  # a dataclass
    values = {}
    for key, value in entry.items():
        if key not in types:
            raise ValueError(f"no such field: {key}")
        values[key] = tuple(_list(value, key)) if key in _TUPLES else value
        plain = _PLAIN.get(str(types[key]))
        if plain is not None and type(values[key]) is not plain:
            raise ValueError(f"{key} is {value!r}, not of type {plain.__name__}")
    return kind(**values)


#: The types of fields that a file can have as they are, by their annotations.
_PLAIN: Mapping[str, type] = {"str": str, "int": int, "bool": bool}


def _list(value: object, key: str) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{key} is {value!r}, not a list")
    return value


def _pair(entry: object) -> tuple[object, object]:
    first, second = _list(entry, "an entry of words")
    return first, second
