"""Stored results by workload, as a comparison takes them: all of one workload together."""

from __future__ import annotations

import functools
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from dsregress.model import Result, split_workload
from dsregress.store.believed import LeftOut, believed
from dsregress.store.bulk import map_families
from dsregress.store.bundle_file import KEY
from dsregress.store.folder import Store

_T = TypeVar("_T")


class StoredWorkloads:
    """The results of some stores (of these stacks, of one scenario), by workload.

    Their files are listed once: results that are written later are not among them.
    """

    def __init__(
        self, stores: Iterable[Store], stacks: Sequence[str] | None = None, scenario: str | None = None
    ) -> None:
        self._stores = list(stores)
        self._files: dict[str, list[str]] = defaultdict(list)  #: by what their names say of the workload
        self._damage: list[str] = []  #: parts of bundles that cannot be read, a line each
        self.unreadable: list[tuple[str, str]] = []  #: stack and workload of files that `map` could not read
        #: those of them that were edited, or that another source has otherwise
        self.disputed: list[tuple[str, str]] = []
        self.damaged: list[str] = []  #: folders of stores that lost more than single files
        for store in self._stores:
            damage = store.damage()
            self._damage += damage
            self.damaged += [store.folder] if damage else []
            for file in store.files(stacks, scenario):
                self._files[_named_workload(file)].append(file)

    def map(self, function: Callable[[Iterable[Result]], _T], problem: Callable[[str], None]) -> Iterator[_T]:
        """Yield ``function`` of the results of some workloads at a time, in order.

        If they are many, several processes read and apply the function: it, and its results, must be picklable. ``problem``
        gets a line for each file or part of a bundle that could not be read, and for each file whose workload differs from
        its name.
        """
        for why in self._damage:
            problem(why)
        for value, left_out in map_families(functools.partial(_apply, function), self._files.values()):
            for file, why, is_disputed in left_out:
                owner = next(store for store in self._stores if file.startswith(store.folder + os.sep))
                problem(owner.problem(file, why))
                (self.disputed if is_disputed else self.unreadable).append(_named_cell(file))
            yield value

    def read(self, workload: str, stack: str | None = None) -> Iterator[Result]:
        """Return the results of one workload (of one stack) once more, in the same order, without those that cannot be
        read."""
        scenario, variant, device = split_workload(workload)
        files = self._files.get(f"/{scenario}/{variant}-{device}", [])
        if stack is not None:
            files = [file for file in files if file.split(os.sep)[-3] == stack]
        return believed(files, [])


def _apply(function: Callable[[Iterable[Result]], _T], files: list[str]) -> tuple[_T, list[LeftOut]]:
    left_out: list[LeftOut] = []
    return function(believed(files, left_out)), left_out


def _named_workload(file: str) -> str:
    """Return the workload in a file's name: scenario, variant and device, or the start of them."""
    return KEY.split(file[file.rfind("/", 0, file.rfind("/")) :], maxsplit=1)[0]


def _named_cell(file: str) -> tuple[str, str]:
    """Return the cell in a file's path: stack and workload."""
    scenario, _, rest = _named_workload(file)[1:].partition("/")
    variant, _, device = rest.rpartition("-")
    return file.split(os.sep)[-3], f"{scenario}/{variant}/{device}"
