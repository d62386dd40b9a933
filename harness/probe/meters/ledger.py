"""Which storages are alive, in bytes, on the device and on the host. Standard library only.

Each storage is registered when an operator first returns it and carries a weak reference from then on, so it leaves the
books at the moment its last owner lets go, whoever that is: the interpreter, the autograd engine, a queue. Nothing is
sampled and nothing is estimated, which is why the same program gives the same bytes every time.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

#: The two memories, and where tensors are that have no bytes at all (on a ``meta`` device that nobody simulates), as
#: indices of the figures here.
DEVICE, HOST, NOWHERE = 0, 1, 2

#: What happened to memory, in order: (id of the storage, bytes; negative when freed, memory, phase number).
Event = tuple[int, int, int, int]

#: A storage that was copied from one memory to the other for no other reason than to be there: (id of the copy, id of the
#: original; 0 for an empty one). Where host and device are one memory, nothing is copied: the one *is* the other.
Move = tuple[int, int]

#: In the place of a storage's id, with no bytes: the program gave back what its allocator had cached.
CACHE_EMPTIED = -1


class Entry(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to a storage that knows what it weighs."""

    __slots__ = ("ghost", "key", "memory", "nbytes", "serial")

    key: int
    nbytes: int
    memory: int
    serial: int
    ghost: bool  #: has a size, but contents that nobody may read or write (see `harness.probe.sim.host`)


class Observer(Protocol):
    """Who wants to know where storages come from (`harness.probe.holders.sites`). None is there unless somebody asked."""

    def born(self, entry: Entry, storage: Any) -> None:
        """A storage is booked for the first time, by the operator that is running."""

    def communicated(self, tensors: Iterable[Any]) -> None:
        """These tensors are the arguments of a collective."""


class StorageLedger:
    """The books of one process. A storage is anything with ``_cdata`` (its identity), ``nbytes()`` and weak references.

    Frees are queued by the weak references' callback (``deque.append``: atomic, so a storage may die on any thread) and
    booked before the next registration; a peak can only move when something is registered, so no peak is missed.
    """

    def __init__(self, *, trace: bool = False) -> None:
        self.live: list[int] = [0, 0, 0]
        self.peak: list[int] = [0, 0, 0]
        self.entries: dict[int, Entry] = {}
        self.phase = 0
        self.trace: list[Event] | None = [] if trace else None
        self.moves: list[Move] = []  #: in order; kept with the trace
        self.observer: Observer | None = None
        self._serial = 0
        self._freed: collections.deque[Any] = collections.deque()

    def add(self, storage: Any, memory: int, ghost: bool = False) -> None:
        """Books a storage that an operator returned; one that is known already is checked for a changed size."""
        if self._freed:
            self.settle()
        key = storage._cdata
        nbytes = storage.nbytes()
        known = self.entries.get(key)
        if known is not None:
            if known.nbytes != nbytes:
                self._grow(known, nbytes - known.nbytes)
            return
        if not nbytes:
            return  # an empty storage is booked once it is resized
        entry = Entry(storage, self._freed.append)
        entry.key, entry.nbytes, entry.memory, entry.ghost = key, 0, memory, ghost
        self._serial += 1
        entry.serial = self._serial
        self.entries[key] = entry
        if self.observer is not None:
            self.observer.born(entry, storage)
        self._grow(entry, nbytes)

    def adopt(self, storages: Iterable[tuple[Any, int]]) -> None:
        """Books storages that were there before anybody looked."""
        for storage, memory in storages:
            self.add(storage, memory)

    def resized(self, storage: Any, memory: int) -> None:
        """Books the new size of a storage that was resized in place."""
        self.add(storage, memory)

    def moved(self, copy: Any, original: Any) -> None:
        """Notes that a storage, booked by now, was copied to the other memory and not changed on the way."""
        if self.trace is not None:
            made, source = self.entries.get(copy._cdata), self.entries.get(original._cdata)
            if made is None or made.memory != NOWHERE:
                self.moves.append((made.serial if made else 0, source.serial if source else 0))

    def workspace(self, nbytes: int, memory: int = DEVICE) -> None:
        """Books memory that a kernel takes and gives back while it runs: it can only be seen in the peak."""
        if self._freed:
            self.settle()
        self.peak[memory] = max(self.peak[memory], self.live[memory] + nbytes)
        if self.trace is not None:
            self._serial += 1
            self.trace.append((self._serial, nbytes, memory, self.phase))
            self.trace.append((self._serial, -nbytes, memory, self.phase))

    def cache_emptied(self, memory: int = DEVICE) -> None:
        """Notes in the trace that the program emptied its allocator's cache. Nothing that is live changes."""
        self.settle()
        if self.trace is not None:
            self.trace.append((CACHE_EMPTIED, 0, memory, self.phase))

    def settle(self) -> None:
        """Books the frees that are waiting."""
        freed, entries, live = self._freed, self.entries, self.live
        while freed:
            entry: Entry = freed.popleft()
            live[entry.memory] -= entry.nbytes
            key = entry.key
            if entries.get(key) is entry:
                del entries[key]
            if self.trace is not None:
                self.trace.append((entry.serial, -entry.nbytes, entry.memory, self.phase))

    def reset_peak(self) -> None:
        """Starts a phase: peaks count from what is live now."""
        self.settle()
        self.phase += 1
        self.peak = list(self.live)

    def _grow(self, entry: Entry, nbytes: int) -> None:
        entry.nbytes += nbytes
        memory = entry.memory
        live = self.live[memory] = self.live[memory] + nbytes
        if live > self.peak[memory]:
            self.peak[memory] = live
        if self.trace is not None:
            self.trace.append((entry.serial, nbytes, memory, self.phase))
