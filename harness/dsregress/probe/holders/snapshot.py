"""The holders of a GPU's memory, from the history that torch's own allocator keeps. Standard library only; the
conversion is pure, and nothing is pickled. Not yet run on hardware.

The structure of a snapshot is torch's (https://docs.pytorch.org/docs/stable/torch_cuda_memory.html): ``device_traces``
has the events of each device, in order: ``action``, ``addr``, ``size`` as requested, ``frames`` innermost first. The
allocator hands out multiples of 512 bytes, and sometimes a larger block that it does not split. What the trace omits of
that, and what was allocated before it began, is a separate row, so the bytes add up to the metric.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dsregress.probe.border.wire import Explanation, Held
from dsregress.probe.holders import categories, sites, trace_replay
from dsregress.probe.holders.frames import CALLERS, PLUMBING, WRAPPERS
from vgpu.figures import PhaseReading
from vgpu.meters.ledger import DEVICE, Event, StorageLedger, StorageReference

#: The allocator rounds requests up to multiples of this, in bytes (``kMinBlockSize``).
_UNIT = 512

#: Events that the allocator keeps; a step of a large model has a few hundred thousand.
MOST_EVENTS = 1 << 22


def snapshot_history(
    snapshot: Mapping[str, Any], device: int
) -> tuple[list[Event], dict[int, int], dict[int, list[Any]]]:
    """Return (allocations and frees, one event for each entry of the trace; serial -> address; serial -> frames).

    An entry that is neither an allocation nor a free becomes an event of no bytes, so that positions in both are equal.
    """
    events: list[Event] = []
    addresses: dict[int, int] = {}
    frames: dict[int, list[Any]] = {}
    live: dict[int, tuple[int, int]] = {}
    for serial, entry in enumerate(snapshot["device_traces"][device], start=1):
        action, address = entry["action"], entry.get("addr", 0)
        event: Event = (0, 0, DEVICE, 0)
        if action == "alloc":
            nbytes = -(-entry["size"] // _UNIT) * _UNIT
            live[address] = (serial, nbytes)
            addresses[serial], frames[serial] = address, entry.get("frames", [])
            event = (serial, nbytes, DEVICE, 0)
        elif action == "free_requested" and address in live:  # from now on it no longer counts as allocated
            freed, nbytes = live.pop(address)
            event = (freed, -nbytes, DEVICE, 0)
        events.append(event)
    return events, addresses, frames


def where(frames: Sequence[Mapping[str, object]], package: str) -> tuple[str, tuple[str, ...], bool]:
    """Return (site, its callers, whether the site is in the framework), as `dsregress.probe.holders.sites` has them."""
    found: list[str] = []
    own = False
    for frame in frames:
        path = str(frame["filename"]).replace("\\", "/")
        inside = path.rpartition("-packages/")[2] if "-packages/" in path else "/".join(path.split("/")[-3:])
        top = inside.split("/")[0].removesuffix(".py")
        if (top in PLUMBING and not inside.startswith("torch/optim/")) or frame["name"] in WRAPPERS:
            continue
        own = own or (not found and top == package)
        found.append(f"{inside}:{frame['line']} in {frame['name']}")
    if not found:
        return "outside the framework", (), False
    return found[0], tuple(found[1 : 1 + CALLERS]), own


class CudaSiteRecorder(sites.SiteRecorder):
    """A `SiteRecorder` whose device part is the allocator's history. ``snapshot`` takes a snapshot; ``device`` is the
    device's index. A block's purpose is found by its address, from the storages that the ledger booked there."""

    def __init__(
        self,
        ledger: StorageLedger,
        framework: object,
        package: str,
        *,
        snapshot: Callable[[], Mapping[str, Any]],
        device: int,
    ) -> None:
        super().__init__(ledger, framework, package)
        self._snapshot, self._device = snapshot, device
        self._at_address: dict[int, list[trace_replay.Birth]] = defaultdict(list)
        self._marks = trace_replay.PhaseMarks()
        self._every: list[int] = [0]  #: position in the history at which each phase began
        self._readings: dict[str, int] = {}

    def born(self, entry: StorageReference, storage: Any) -> None:
        super().born(entry, storage)
        if entry.memory == DEVICE:
            self._at_address[storage.data_ptr()].append(self._births[entry.serial])

    @contextlib.contextmanager
    def phase(self, name: str, metered: Callable[[str], AbstractContextManager[None]]) -> Iterator[None]:
        with super().phase(name, metered):
            begin = self._length()
            self._every.append(begin)
            yield
        self._marks.add(name, begin, self._length())

    def new_step(self) -> None:
        super().new_step()
        self._marks.new_step()

    def measured(self, readings: Mapping[str, PhaseReading]) -> None:
        """Record the bytes that the allocator reports, to which the explanation must add up."""
        for phase, reading in readings.items():
            for metric in ("device_peak_bytes", "device_retained_bytes"):
                self._readings[f"{phase}.{metric}"] = getattr(reading, metric)

    def explanation(self, rank: int, room_bytes: int = 0) -> Explanation:
        of_ledger = super().explanation(rank)
        device = self._of_device(rank)
        moments = {key: device.moments.get(key, moment) for key, moment in of_ledger.moments.items()}
        for key, nbytes in self._readings.items():
            if key in moments:
                moments[key] = completed(moments[key], nbytes)
        return Explanation(moments, device.timeline, device.note)

    def _of_device(self, rank: int) -> Explanation:
        events, addresses, frames = snapshot_history(self._snapshot(), self._device)
        numbered, phase = [], 0
        for position, (serial, nbytes, memory, _) in enumerate(events):
            while phase + 1 < len(self._every) and self._every[phase + 1] <= position:
                phase += 1
            numbered.append((serial, nbytes, memory, phase))
        began = {serial: number for serial, nbytes, _, number in numbered if nbytes > 0}
        at_address: dict[int, list[int]] = defaultdict(list)
        for serial, address in addresses.items():
            at_address[address].append(serial)
        births: dict[int, trace_replay.Birth] = {}
        for address, serials in at_address.items():
            known = self._at_address.get(address, [])
            for number, serial in enumerate(serials):
                site, via, own = where(frames[serial], self._package)
                birth = births[serial] = trace_replay.Birth(site, via, "", began[serial], False, own)
                # Else the address also held memory that was no storage, and which is which is unknown.
                if len(known) == len(serials):
                    birth.category, birth.module = known[number].category, known[number].module
                    birth.names = known[number].names
        full = len(events) >= MOST_EVENTS
        explained = trace_replay.explain_trace(numbered, births, self._marks.all(), self._labels, rank)
        device = {key: moment for key, moment in explained.moments.items() if ".device_" in key}
        note = "the allocator's history was too short for all of the run" if full else ""
        return Explanation(device, explained.timeline, note)

    def _length(self) -> int:
        return len(self._snapshot()["device_traces"][self._device])


def completed(moment: Any, nbytes: int) -> Any:
    """Return a moment whose rows add up to ``nbytes``, the allocator's figure."""
    missing = nbytes - moment.nbytes
    if not missing:
        return moment
    row = Held(missing, 0, categories.ROUNDING, "", "torch's caching allocator", [], "")
    return dataclasses.replace(moment, nbytes=nbytes, held=[*moment.held, row])
