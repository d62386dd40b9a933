"""Tables beside the modules that use them, as ``.json``. Standard library only: the host reads them too.

A table that does not have the form that its module expects is an error at import.
"""

from __future__ import annotations

import json
from pathlib import Path


def table_beside(module: str) -> dict[str, object]:
    """Return the table beside a module, which is given by its ``__file__``. Raise OSError or ValueError."""
    return decoded_entries(json.loads(Path(module).with_suffix(".json").read_text(encoding="utf-8")))


def decoded_texts(entry: object) -> tuple[str, ...]:
    """Return a list of strings of a table. Raise ValueError for anything else."""
    if isinstance(entry, list) and all(isinstance(one, str) for one in entry):
        return tuple(entry)
    raise ValueError(f"not a list of strings: {entry!r}")


def decoded_text(entry: object) -> str:
    """Return a string of a table. Raise ValueError for anything else."""
    if isinstance(entry, str):
        return entry
    raise ValueError(f"not a string: {entry!r}")


def decoded_entries(table: object) -> dict[str, object]:
    """Return the entries of a table in a table by name. Raise ValueError for anything else."""
    if isinstance(table, dict):
        return table
    raise ValueError(f"not an object: {table!r}")


def decoded_lists(table: object) -> dict[str, list[object]]:
    """Return the lists of a table by name. Raise ValueError for anything else."""
    found: dict[str, list[object]] = {}
    for name, entry in decoded_entries(table).items():
        if not isinstance(entry, list):
            raise ValueError(f"not a list: {entry!r}")
        found[name] = entry
    return found


def decoded_text_lists(table: object) -> dict[str, tuple[str, ...]]:
    """Return the lists of strings of a table by name. Raise ValueError for anything else."""
    return {name: decoded_texts(one) for name, one in decoded_entries(table).items()}
