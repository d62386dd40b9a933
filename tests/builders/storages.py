"""Tensors and storages of a pretended torch, for the ledger."""

from __future__ import annotations

from dsregress.probe.border.wire import Moment


class Storage:
    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes

    @property
    def _cdata(self) -> int:
        return id(self)

    def nbytes(self) -> int:
        return self._nbytes


class Tensor:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def untyped_storage(self) -> Storage:
        return self.storage


def by_category(moment: Moment) -> dict[str, int]:
    found: dict[str, int] = {}
    for held in moment.held:
        found[held.category] = found.get(held.category, 0) + held.nbytes
    return found
