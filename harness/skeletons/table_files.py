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


def model_tables() -> list[str]:
    """Return the names for `read_table` of the tables of models, sorted."""
    return [f"models/{file.stem}" for file in sorted((TABLES / "models").glob("*.json"))]
