"""Replays what torch's own memory snapshots recorded (``torch.cuda.memory._snapshot()``), or a trace, on a card. Standard
library only.

The structure of a snapshot is torch's (https://docs.pytorch.org/docs/stable/torch_cuda_memory.html): ``device_traces`` has
the events of each device since ``_record_memory_history``, ``segments`` what there was in the end. What was allocated before
the history began comes first, in the order of addresses: which segments it was in by then is not recorded. Segments that
went back to the card are taken for ``torch.cuda.empty_cache()``.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vgpu import card_catalogue
from vgpu.allocator.model import AllocatorSettings
from vgpu.allocator.replay import ReplayResult, replay
from vgpu.meters.ledger import CACHE_EMPTIED, DEVICE, FREE_DELAYED, FREE_PASSED, STREAM_SELECTED, Event, note


def replay_on_card(
    recorded: str | Path | Mapping[str, object] | Sequence[Event],
    card: str | None = None,
    settings: AllocatorSettings | None = None,
    *,
    device: int = 0,
) -> ReplayResult:
    """Replay what a program allocated and freed, and return the peaks by phase, and where the card would be full.

    ``recorded`` is a trace (`VirtualGpu.trace`), a snapshot of torch's, or the file in which
    ``torch.cuda.memory._dump_snapshot`` wrote one; a snapshot is one phase, 0. ``card`` is the name of a known card, whose
    CUDA context is not subtracted; without one there is no limit. ``settings`` are by default those in the snapshot, else
    torch's defaults.

    Files of snapshots are pickles: open only your own. Raise UnknownCard (a ValueError), and ValueError for a snapshot
    without a history of ``device``.
    """
    if isinstance(recorded, (str, Path)):
        with open(recorded, "rb") as file:
            recorded = pickle.load(file)
    assert not isinstance(recorded, (str, Path))
    if isinstance(recorded, Mapping):
        settings = dataclasses.replace(
            settings or snapshot_settings(recorded), late=True
        )  # frees pass when the GPU says
        recorded = snapshot_events(recorded, device)
    settings = settings or AllocatorSettings()
    if card is not None:
        settings = dataclasses.replace(settings, card_bytes=card_catalogue.named_card(card).usable_bytes)
    return replay(recorded, settings)


def snapshot_settings(snapshot: Mapping[str, Any]) -> AllocatorSettings:
    """Return the allocator's options in a snapshot; torch's defaults if it has none (torch before 2.2)."""
    options = snapshot.get("allocator_settings") or {}
    most = int(options.get("max_split_size", -1))
    return AllocatorSettings(
        expandable_segments=bool(options.get("expandable_segments", False)),
        max_split_size_bytes=most if 0 < most < 1 << 60 else None,
    )


def snapshot_events(snapshot: Mapping[str, Any], device: int = 0) -> list[Event]:
    """Return the events of a snapshot as a ledger has them. Raise ValueError if it has no history of the device."""
    traces = snapshot.get("device_traces") or []
    if device >= len(traces) or not traces[device]:
        raise ValueError(
            f"the snapshot has no history of device {device}: call torch.cuda.memory._record_memory_history() first"
        )
    history = _BlockHistory()
    history.before(traces[device], [one for one in snapshot.get("segments", ()) if one.get("device", 0) == device])
    for entry in traces[device]:
        history.follow(entry)
    return history.events


class _BlockHistory:
    """The events so far, and the blocks that are live by address."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._live: dict[int, tuple[int, int]] = {}  #: address -> (key, bytes)
        self._freed: dict[int, int] = {}  #: address -> number of the delayed free
        self._keys = 0
        self._stream = 0
        self._streams: dict[int, int] = {0: 0}  #: torch's -> the model's
        self._gives_back = False

    def before(self, trace: Sequence[Mapping[str, Any]], segments: Iterable[Mapping[str, Any]]) -> None:
        """Allocate what was live before the trace began: what it frees without having allocated it, and what is left."""
        known: set[int] = set()
        found: dict[int, tuple[int, int]] = {}  #: address -> (bytes, stream)
        for entry in trace:
            if entry["action"] == "alloc":
                known.add(entry["addr"])
            elif entry["action"] == "free_requested" and entry["addr"] not in known:
                known.add(entry["addr"])
                found[entry["addr"]] = entry["size"], entry.get("stream", 0)
        for segment in segments:
            address = segment["address"]
            for block in segment["blocks"]:
                at = block.get("address", address)
                if block["state"] == "active_allocated" and at not in known:
                    found[at] = block.get("requested_size", block["size"]), segment.get("stream", 0)
                address += block["size"]
        for address, (nbytes, stream) in sorted(found.items()):
            self._allocate(address, nbytes, stream)

    def follow(self, entry: Mapping[str, Any]) -> None:
        """Add an entry of torch's trace."""
        action, address = entry["action"], entry.get("addr", 0)
        if action == "alloc":
            self._allocate(address, entry["size"], entry.get("stream", 0))
        elif action == "free_requested" and address in self._live:
            key, nbytes = self._live.pop(address)
            self._freed[address] = key
            self._add(note(FREE_DELAYED, key))
            self._add(key, -nbytes)
        elif action == "free_completed" and address in self._freed:
            self._add(note(FREE_PASSED, self._freed.pop(address)))
        gives_back = action in ("segment_free", "segment_unmap")
        if gives_back and not self._gives_back:
            self._add(note(CACHE_EMPTIED))
        self._gives_back = gives_back

    def _allocate(self, address: int, nbytes: int, stream: int) -> None:
        number = self._streams.setdefault(stream, len(self._streams))
        if number != self._stream:
            self._stream = number
            self._add(note(STREAM_SELECTED, number))
        self._keys += 1
        self._live[address] = self._keys, nbytes
        self._add(self._keys, nbytes)

    def _add(self, key: int, nbytes: int = 0) -> None:
        self.events.append((key, nbytes, DEVICE, 0))
