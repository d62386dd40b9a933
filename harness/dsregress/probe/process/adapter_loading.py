"""Loads adapters, and refuses modules that are none: a function that is missing or misspelled is an error, not silence."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from dsregress.probe.adapters import adapter_module
from dsregress.probe.border.wire import CellRequest, Detail, RankRecord
from dsregress.probe.framework import (
    Adapter,
    ComputesIdeal,
    HasCanary,
    JobAdapter,
    KeepsTime,
    ListsHolders,
    NamesModules,
    NamesPackage,
)
from dsregress.probe.harness_fault import HarnessFault
from dsregress.probe.process.channel import Channel
from dsregress.probe.process.heartbeat import Heartbeat


@runtime_checkable
class ProgramAdapter(Adapter, Protocol):
    """An adapter of workloads that run by themselves and are observed."""

    def simulated_ranks(self, parameters: Mapping[str, object]) -> Sequence[int]:
        """Return the ranks that ``sim`` runs, one process each. A `JobAdapter` simulates rank 0 alone."""
        ...

    def prepare_run(self, request: CellRequest, folder: Path) -> None:
        """Prepare the run's folder, before ranks are forked."""

    def keep_files(self, request: CellRequest, folder: Path, ranks: Sequence[RankRecord]) -> None:
        """Called when the ranks have passed and ended: keep what the request wants kept of the run's folder and of their
        records, and complete the records."""

    def prepare_retry(self, folder: Path) -> bool:
        """Called when ranks have failed. Return True if the cell is to be retried, from `prepare_run` on."""
        ...

    def run_rank(
        self,
        request: CellRequest,
        rank: int,
        heartbeat: Heartbeat,
        measured: Callable[[RankRecord, Detail], None],
        channel: Channel,
    ) -> None:
        """Do all the work of a rank, and call ``measured`` once everything untimed is measured."""


#: All that a module may be or have.
_PROTOCOLS = (
    *(JobAdapter, ProgramAdapter, ComputesIdeal, HasCanary, KeepsTime, NamesModules, ListsHolders, NamesPackage),
)

#: How alike a name and a protocol's are if one is a misspelling of the other: one letter of five differs.
_ALIKE = 0.8


class AdapterError(HarnessFault):
    """A module is no adapter; one line says what to change."""


def load_adapter(named: str) -> Adapter:
    """Import an adapter by its id or module path. Raise AdapterError if the module is none."""
    module = importlib.import_module(adapter_module(named))
    known = {name.lower(): name for name in set().union(*map(protocol_names, _PROTOCOLS))}
    for name in _own_names(module):
        alike = difflib.get_close_matches(name.lower(), known, 1, _ALIKE)
        if alike and known[alike[0]] != name:
            raise AdapterError(
                f"{named} defines {name!r}, and adapters have {known[alike[0]]!r}: call it so, or _{name} if it is a helper"
            )
    if not isinstance(module, (JobAdapter, ProgramAdapter)):
        lacking = sorted(protocol_names(JobAdapter) - set(dir(module)))
        raise AdapterError(
            f"{named} is no adapter, as it does not define {', '.join(lacking)}: see docs/add-a-framework.md"
        )
    return module


def protocol_names(protocol: type) -> set[str]:
    """Return the names that a protocol asks for, with those that it inherits."""
    bases = [base for base in protocol.__mro__ if base not in (object, Protocol)]
    names = {name for base in bases for name in (*vars(base), *inspect.get_annotations(base))}
    return {name for name in names if not name.startswith("_")}


def _own_names(module: Any) -> list[str]:
    """Return the public functions that a module defines, and its public texts: what could be meant for a protocol's."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, str) or (inspect.isfunction(value) and value.__module__ == module.__name__))
    ]
