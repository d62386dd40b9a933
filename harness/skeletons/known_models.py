"""Known models: the published configuration of each, by its name on the hub. Without torch.

A file of ``tables/models`` holds models of one publisher or architecture:

| | |
|---|---|
| ``bases`` | fields that several of its models share |
| ``models`` | name on the hub -> the fields of `KnownModel`, where ``config`` extends and overrides ``base`` |
| ``same_as`` | in place of all other fields: the model of the same file under its other name |

Left out are fields that say nothing about shapes, memory or the path through the code: dropout that is zero,
``initializer_range`` (the classes' default is the published 0.02), ``max_window_layers`` and ``sliding_window`` where
``use_sliding_window`` is false, and most fields at the default of their transformers class.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from skeletons.table_files import model_tables, read_table


@dataclasses.dataclass(frozen=True)
class KnownModel:
    """A model's published files, and how well they are known."""

    config: dict[str, Any]  #: the fields of its ``config.json``
    tokenizer: str  #: a family in `skeletons.tokenizer_families`; empty: the model reads no text
    source: str  #: where the configuration is from: a key of `configuration_sources`
    confirmed_by: tuple[str, ...] = ()  #: packages whose own tables agree: tests/skeletons/confirming.py
    preprocessor: dict[str, Any] | None = None  #: its ``preprocessor_config.json``, if it sees or hears
    processor: dict[str, Any] | None = None  #: its ``processor_config.json``, if its processor has no defaults for it


@dataclasses.dataclass(frozen=True)
class ConfigurationSource:
    """The origin of configurations."""

    kind: str  #: ``repository``, ``copy``, ``code`` (of another project) or ``card`` (of papers and model cards)
    text: str


@functools.cache
def known_models() -> Mapping[str, KnownModel]:
    """Return the known models by their names on the hub, in the order of the files. Reads them on the first call."""
    preprocessors = read_table("preprocessors")
    found: dict[str, KnownModel] = {}
    for name in model_tables():
        table = read_table(name)
        for model, entry in table["models"].items():
            original = entry.get("same_as")
            found[model] = found[original] if original else _known_model(entry, table["bases"], preprocessors)
    return MappingProxyType(found)


@functools.cache
def configuration_sources() -> Mapping[str, ConfigurationSource]:
    """Return the origins of the configurations, by `KnownModel.source`."""
    return {key: ConfigurationSource(**fields) for key, fields in read_table("sources").items()}


def _known_model(entry: dict[str, Any], bases: dict[str, Any], preprocessors: dict[str, Any]) -> KnownModel:
    base = bases[entry["base"]] if "base" in entry else {}
    return KnownModel(
        config={**base, **entry["config"]},
        tokenizer=entry.get("tokenizer", ""),
        source=entry["source"],
        confirmed_by=tuple(entry.get("confirmed_by", ())),
        preprocessor=preprocessors[entry["preprocessor"]] if "preprocessor" in entry else None,
        processor=entry.get("processor"),
    )
