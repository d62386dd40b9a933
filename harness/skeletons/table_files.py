"""Data files of the known models, beside the code in ``tables/``. Standard library only: measured environments read them.

Objects are laid out for diffs: one model, pipeline or tokenizer per line where it fits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TABLES = Path(__file__).parent / "tables"


def read_table(name: str) -> Any:
    """Return the content of ``tables/NAME.json``; OSError or ValueError if the installation lacks it or spoiled it."""
    return json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"))


def read_names(name: str) -> dict[str, tuple[str, ...]]:
    """Return the lists of names in ``tables/NAME.json``; OSError or ValueError as `read_table`, also for anything else."""
    found: dict[str, tuple[str, ...]] = {}
    for key, names in read_table(name).items():
        if not (isinstance(names, list) and all(isinstance(one, str) for one in names)):
            raise ValueError(f"{name}.json: {key} is not a list of names")
        found[key] = tuple(names)
    return found


def model_tables() -> list[str]:
    """Return the names for `read_table` of the tables of models, sorted."""
    return [f"models/{file.stem}" for file in sorted((TABLES / "models").glob("*.json"))]
