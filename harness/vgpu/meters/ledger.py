"""The live storages, in bytes, on the device and on the host. Standard library only.

Each storage is registered when an operator first returns it, with a weak reference, so it is booked out at the moment
its last owner releases it: the interpreter, the autograd engine, a queue. Nothing is sampled and nothing is estimated,
so the same program has the same bytes every time.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from vgpu.meters.device_streams import DeviceStreams

#: Indices of the figures here: the two memories, and the place of tensors without any bytes (on a ``meta`` device that is
#: not simulated).
DEVICE, HOST, NOWHERE = 0, 1, 2

#: One change of memory, in order: (id of the storage, bytes; negative when freed, memory, phase number).
Event = tuple[int, int, int, int]

#: A storage that was copied unchanged from one memory to the other: (id of the copy, id of the original; 0 for an empty
#: one). If host and device are one memory, nothing is copied: both are the same storage.
Move = tuple[int, int]

#: Notes for the allocator between changes of memory: `note` makes one, in place of a storage's id, with no bytes.
CACHE_EMPTIED = 0  #: the program emptied its allocator's cache
STREAM_SELECTED = 1  #: later allocations are on this stream; the default stream is 0
FREE_DELAYED = 2  #: other streams use what is freed next: a free with this number
FREE_PASSED = 3  #: they are done with what was freed under this number, at the latest
_KINDS = 4


def note(kind: int, number: int = 0) -> int:
    """Return a note as the id of an event."""
    return -1 - kind - _KINDS * number


def noted(key: int) -> tuple[int, int]:
    """Return (kind, number) of a note."""
    number, kind = divmod(-1 - key, _KINDS)
    return kind, number


class StorageReference(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to a storage, with its size and memory."""

    __slots__ = ("ghost", "key", "memory", "nbytes", "serial", "stream", "used_on")

    key: int
    nbytes: int
    memory: int
    serial: int
    ghost: bool  #: has a size, but no contents to read or write (see `vgpu.sim.host`)
    stream: int  #: that was current when it was allocated
    used_on: tuple[int, ...]  #: the other streams that work on it


class LedgerObserver(Protocol):
    """Observes where storages are made (`dsregress.probe.holders.sites`). A ledger has none unless the cell is explained."""

    def born(self, entry: StorageReference, storage: object) -> None:
        """Called when a storage is first booked, while the operator that made it runs."""

    def communicated(self, tensors: Iterable[object]) -> None:
        """Called with the arguments of a collective."""


class StorageLedger:
    """The books of one process. A storage is anything with ``_cdata`` (its identity), ``nbytes()`` and weak references.

    Frees are queued by the weak references' callback (``deque.append``: atomic, so a storage may be freed on any thread)
    and booked before the next registration. A peak can only move at a registration, so no peak is missed.
    """

    def __init__(self, *, trace: bool = False) -> None:
        self.live: list[int] = [0, 0, 0]
        self.peak: list[int] = [0, 0, 0]
        self.entries: dict[int, StorageReference] = {}
        self.phase = 0
        self.trace: list[Event] | None = [] if trace else None
        self.moves: list[Move] = []  #: in order; kept with the trace
        self.observer: LedgerObserver | None = None
        self.streams = DeviceStreams(late=trace, settle=self.settle, passed=self._passed)
        self._stream_noted = 0
        self._serial = 0
        self._freed: collections.deque[Any] = collections.deque()

    def add(self, storage: Any, memory: int, ghost: bool = False) -> None:
        """Book a storage that an operator returned; if it already is booked, book a change of its size."""
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
        entry = StorageReference(storage, self._freed.append)
        entry.key, entry.nbytes, entry.memory, entry.ghost, entry.used_on = key, 0, memory, ghost, ()
        self._serial += 1
        entry.serial = self._serial
        self.entries[key] = entry
        if self.observer is not None:
            self.observer.born(entry, storage)
        self._grow(entry, nbytes)

    def find(self, storage: Any) -> StorageReference | None:
        """Return the entry of a storage; None if it is not booked. (A freed storage may have had the same address.)"""
        if self._freed:
            self.settle()
        return self.entries.get(storage._cdata)

    def adopt(self, storages: Iterable[tuple[object, int]]) -> None:
        """Book storages that were made before the ledger existed."""
        for storage, memory in storages:
            self.add(storage, memory)

    def resized(self, storage: object, memory: int) -> None:
        """Book the new size of a storage that was resized in place."""
        self.add(storage, memory)

    def moved(self, copy: Any, original: Any) -> None:
        """Record that a storage, booked by now, was copied unchanged to the other memory."""
        if self.trace is not None:
            made, source = self.entries.get(copy._cdata), self.entries.get(original._cdata)
            if made is None or made.memory != NOWHERE:
                self.moves.append((made.serial if made else 0, source.serial if source else 0))

    def workspace(self, *nbytes: int, memory: int = DEVICE) -> None:
        """Book memory that a kernel takes, all of it at the same time, and frees while it runs: only the peak includes
        it."""
        if self._freed:
            self.settle()
        self.peak[memory] = max(self.peak[memory], self.live[memory] + sum(nbytes))
        if self.trace is not None:
            if self._stream_noted != self.streams.current and memory == DEVICE:
                self._note_stream()
            first = self._serial + 1
            self._serial += len(nbytes)
            self.trace += [(first + i, size, memory, self.phase) for i, size in enumerate(nbytes)]
            self.trace += [(first + i, -size, memory, self.phase) for i, size in enumerate(nbytes)]

    def cache_emptied(self, memory: int = DEVICE) -> None:
        """Record in the trace that the program emptied its allocator's cache. Live storages are unaffected."""
        self.settle()
        if self.trace is not None:
            self.trace.append((note(CACHE_EMPTIED), 0, memory, self.phase))

    def used_on(self, storage: object, stream: int) -> None:
        """Record that work of a stream uses a storage, as ``record_stream`` does. Its own stream needs no record: the
        next allocation on it comes after that work."""
        entry = self.find(storage)
        if entry is None or entry.memory != DEVICE or stream == entry.stream:
            return
        if stream not in entry.used_on:
            entry.used_on = (*entry.used_on, stream)

    def settle(self) -> None:
        """Book the queued frees."""
        freed, entries, live = self._freed, self.entries, self.live
        while freed:
            entry: StorageReference = freed.popleft()
            live[entry.memory] -= entry.nbytes
            key = entry.key
            if entries.get(key) is entry:
                del entries[key]
            if entry.used_on:
                self._delay_free(entry)
            if self.trace is not None:
                self.trace.append((entry.serial, -entry.nbytes, entry.memory, self.phase))

    def reset_peak(self) -> None:
        """Begin a phase: its peaks begin at what is live now."""
        self.settle()
        self.phase += 1
        self.peak = list(self.live)

    def _grow(self, entry: StorageReference, nbytes: int) -> None:
        if entry.nbytes and entry.used_on:
            self._delay_free(entry)  # a storage that is resized gives its block back
        entry.nbytes += nbytes
        entry.stream = self.streams.current
        memory = entry.memory
        live = self.live[memory] = self.live[memory] + nbytes
        if live > self.peak[memory]:
            self.peak[memory] = live
        if self.trace is not None:
            if self._stream_noted != entry.stream and memory == DEVICE and entry.nbytes:
                self._note_stream()
            self.trace.append((entry.serial, nbytes, memory, self.phase))

    def _note_stream(self) -> None:
        assert self.trace is not None
        self._stream_noted = self.streams.current
        self.trace.append((note(STREAM_SELECTED, self._stream_noted), 0, DEVICE, self.phase))

    def _delay_free(self, entry: StorageReference) -> None:
        number = self.streams.delay(entry.used_on)
        entry.used_on = ()
        if number and self.trace is not None:
            self.trace.append((note(FREE_DELAYED, number), 0, entry.memory, self.phase))

    def _passed(self, number: int) -> None:
        if self.trace is not None:
            self.trace.append((note(FREE_PASSED, number), 0, DEVICE, self.phase))
