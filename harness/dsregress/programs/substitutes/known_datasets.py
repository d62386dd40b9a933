"""Common data sets: name on the hub -> columns and splits. Without torch.

``known_datasets.json`` maps patterns of names, of which the first match counts, to both; a pattern is
``NAME/CONFIGURATION`` if columns differ between configurations, and one with ``{language}`` stands for one of each
language. Columns are those on each data set's card on huggingface.co, as far as trainers read them. Each is filled by a
maker of `substitutes.synthetic_rows`; ``prompt:messages`` is the column ``prompt`` filled as messages.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import json
from collections.abc import Mapping
from pathlib import Path

from dsregress.programs.substitutes import synthetic_rows


@dataclasses.dataclass(frozen=True)
class DatasetSchema:
    """Columns and splits of a data set."""

    columns: str  #: names separated by spaces, each with its maker if that has another name
    splits: tuple[str, ...] = ("train", "test")


#: For a data set that is not in the table: one of each column that a trainer may look for.
ANY = DatasetSchema(
    "text:document prompt:question completion:answer messages chosen:answer rejected:answer "
    "instruction:question input:question output:answer question answer label:flag"
)


@functools.cache
def known_datasets() -> Mapping[str, DatasetSchema]:
    """Return pattern of names -> schema, in the order in which they are tried. Reads them on the first call."""
    entries = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    found: dict[str, DatasetSchema] = {}
    for pattern, entry in entries.items():
        for language in synthetic_rows.LANGUAGES if "{language}" in pattern else ("",):
            columns = entry["columns"].replace("{language}", language)
            found[pattern.replace("{language}", language)] = DatasetSchema(columns, tuple(entry["splits"].split()))
    return found


def find_schema(name: str, configuration: str | None = None) -> DatasetSchema:
    """Return the schema of a data set, `ANY` if it is unknown. Names are case-insensitive."""
    given = name.lower()
    for pattern, schema in known_datasets().items():
        for full in (f"{given}/{(configuration or '').lower()}", given):
            if fnmatch.fnmatchcase(full, pattern.lower()):
                return schema
    return ANY
