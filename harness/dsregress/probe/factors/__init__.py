"""All factors: each file here declares one, or a few that belong together. Standard library only.

A factor that is data alone is an entry of a ``.json`` file (see `dsregress.probe.factor_files`). One with a function, or a
long template, is an object in a module. A factor is in all tables once its file is here: the parameters of the
simplest scenarios, DeepSpeed's configuration, what `reproduce` varies and `explore` tries, the scripts, the documentation.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dsregress.probe.adapters import TRAINER
from dsregress.probe.factor import Configured, Factor, LoopCall
from dsregress.probe.factor_files import read_factors


def _declared_factors() -> Iterator[Factor]:
    yield from read_factors(Path(__file__).parent)
    for module in pkgutil.iter_modules(__path__):
        declared = vars(importlib.import_module(f"{__name__}.{module.name}"))
        yield from (one for one in declared.values() if isinstance(one, Factor))


FACTORS = tuple(sorted(_declared_factors(), key=lambda one: (one.place, one.name)))

BY_NAME: Mapping[str, Factor] = {factor.name: factor for factor in FACTORS}

#: The factors with a size for a tiny model, and that size.
SIZES: Mapping[str, Any] = {factor.name: factor.simplest for factor in FACTORS if factor.is_size}


def simplest_values(framework: str) -> dict[str, object]:
    """Return the simplest value of each factor that the jobs of an adapter have, in the order of variants' names."""
    named = sorted(FACTORS, key=lambda one: (one.named_at, one.name))
    return {one.name: one.simplest for one in named if framework != TRAINER or one.of_trainer}


def accumulates_itself(values: Mapping[str, object]) -> bool:
    """Return True if the caller, not the configuration, determines which micro-batches make a step."""
    return Configured(values=values).accumulates_itself


def factor_values(parameters: Mapping[str, object]) -> dict[str, Any]:
    """Return the value of each factor in a job with these parameters."""
    return {one.name: parameters.get(one.name, one.default) for one in FACTORS}


def active_hooks(parameters: Mapping[str, object], moment: str) -> list[tuple[LoopCall, Any]]:
    """Return the calls of all factors at a moment of a job (a field of `Hooks`), each with the factor's value."""
    values = factor_values(parameters)
    found = [(getattr(one.hooks, moment), values[one.name]) for one in FACTORS if one.is_active(values)]
    return [(call, value) for call, value in found if call is not None]


def deepspeed_configuration(job: Configured, base: Mapping[str, object]) -> dict[str, Any]:
    """Return DeepSpeed's configuration of a job: ``base``, and the entries of all factors' values."""
    found = _merged({}, base)
    for factor in FACTORS:
        _merged(found, factor.entries(job))
    return found


def _merged(found: dict[str, Any], entries: Mapping[str, object]) -> dict[str, object]:
    for key, value in entries.items():
        found[key] = _merged(found.get(key, {}), value) if isinstance(value, Mapping) else value
    return found
