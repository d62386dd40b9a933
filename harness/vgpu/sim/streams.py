"""Streams and events of a simulated card.

The program's order is the only order of work, so nothing waits; but each stream has memory of its own, and on a GPU a free
waits for the streams that use the memory, so `DeviceStreams` follows which stream is current and what the host has waited
for.

Source of the interface: https://docs.pytorch.org/docs/stable/cuda.html#streams-and-events.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from vgpu.meters.device_streams import DeviceStreams, Mark
from vgpu.meters.ledger import StorageLedger
from vgpu.no_stand_in import StandIn
from vgpu.replacing import Patches
from vgpu.sim.errors import SimulationError, caller, location

#: Time between two events, milliseconds: small, but not 0, as programs divide by it.
ELAPSED_MS = 0.001


#: Streams that PyTorch has of each priority, which it gives out in turns (`kStreamsPerPool` in
#: ``c10/cuda/CUDAStream.cpp``).
_STREAMS_PER_POOL = 32


class Stream(StandIn):
    """``torch.cuda.Stream``."""

    def __init__(self, device: object = None, priority: int = 0, **kwargs: Any) -> None:
        super().__init__("torch.cuda.Stream()")
        self.priority = priority
        self.device_index = 0
        self.device_type = 1
        number = kwargs.get("stream_id")
        self.stream_id = _card().next_number(priority) if number is None else number
        self.cuda_stream = self.stream_id

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", self.device_index)

    def wait_event(self, event: Any) -> None:
        """Make later work of this stream wait for the event."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Make later work of this stream wait for ``stream``. None is the stream that `torch.nn.parallel` finds to copy on
        for a device not called ``cuda``, as in a simulation."""
        if stream is not None:
            _device_streams().wait(self.stream_id, _device_streams().mark(stream.stream_id))

    def record_event(self, event: Any = None) -> object:
        """Record ``event``, or a new one, on this stream and return it."""
        event = event if event is not None else Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Return True if all work of this stream is done. A second query in a row waits for it (`DeviceStreams.is_done`)."""
        return _device_streams().is_stream_done(self.stream_id)

    def is_capturing(self) -> bool:
        """Return False: no graph is ever captured."""
        return False

    def synchronize(self) -> None:
        """Record that the host waited for all work of this stream."""
        _device_streams().finish_stream(self.stream_id)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return (0, -1)

    def __enter__(self) -> Stream:
        _card().enter(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _card().leave()

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:{self.device_index} cuda_stream={self.cuda_stream:#x}>"


class Event(StandIn):
    """``torch.cuda.Event``."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: object
    ) -> None:
        super().__init__("torch.cuda.Event()")
        self.enable_timing = enable_timing
        self.cuda_event = id(self)
        self.device = torch.device("cuda", 0)
        self._mark: Mark | None = None  #: what was recorded last

    def record(self, stream: Any = None) -> None:
        """Mark the work so far of ``stream``, or of the current one."""
        self._mark = _device_streams().mark((stream or _card().current).stream_id)

    def wait(self, stream: Any = None) -> None:
        """Make later work of ``stream``, or of the current one, wait for the recorded work."""
        if self._mark is not None:
            _device_streams().wait((stream or _card().current).stream_id, self._mark)

    def query(self) -> bool:
        """Return True if nothing was recorded or the recorded work is done. A second query in a row waits for it
        (`DeviceStreams.is_done`)."""
        return self._mark is None or _device_streams().is_done(self._mark)

    def ipc_handle(self) -> Any:
        """Raise SimulationError: the handle is for another process, which has no part in a virtual card."""
        raise SimulationError(f"an event's ipc_handle() needs a GPU: run this program on cuda. At {location(caller())}")

    @classmethod
    def from_ipc_handle(cls, device: object, handle: Any) -> Event:
        """Raise SimulationError as `ipc_handle`."""
        return cls().ipc_handle()  # type: ignore[no-any-return]

    def elapsed_time(self, end_event: object) -> float:
        """Return `ELAPSED_MS`, a short time in milliseconds."""
        return ELAPSED_MS

    def synchronize(self) -> None:
        """Record that the host waited for the recorded work."""
        if self._mark is not None:
            _device_streams().finish(self._mark)


class StreamContext:
    """``torch.cuda.stream(stream)``; ``stream`` may be None."""

    def __init__(self, stream: object) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _card().enter(self.stream)

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None:
            _card().leave()


_DEFAULT = Stream(stream_id=0)


class _Card:
    """The streams of one card: their order of work, which of them is current, and the numbers that are given out."""

    def __init__(self, order: DeviceStreams) -> None:
        self.order = order
        self._entered: list[Any] = [_DEFAULT]
        self._numbers: dict[int, Iterator[int]] = {}  #: priority -> the numbers of its streams, in turns

    @property
    def current(self) -> Any:
        return self._entered[-1]

    def enter(self, stream: Any) -> None:
        """Make ``stream`` current until `leave`."""
        self._entered.append(stream)
        self.order.current = stream.stream_id

    def leave(self) -> None:
        """Restore the stream that was current before `enter`."""
        self._entered.pop()
        self.order.current = self.current.stream_id

    def select(self, stream: Any) -> None:
        """Make ``stream`` current until the enclosing block, if any, is left."""
        self._entered[-1] = stream
        self.order.current = stream.stream_id

    def next_number(self, priority: int) -> int:
        """Return the number of a new stream: from 1 on, as the default stream is 0."""
        if priority not in self._numbers:
            first = 1 + len(self._numbers) * _STREAMS_PER_POOL
            self._numbers[priority] = itertools.cycle(range(first, first + _STREAMS_PER_POOL))
        return next(self._numbers[priority])


#: The innermost followed card is last. Outside of `followed`: a GPU that is never behind.
_cards = [_Card(DeviceStreams(late=False, settle=lambda: None, passed=lambda number: None))]


def _card() -> _Card:
    return _cards[-1]


def _device_streams() -> DeviceStreams:
    return _card().order


@contextlib.contextmanager
def followed(ledger: StorageLedger) -> Iterator[None]:
    """Let the ledger follow, within the block, which stream is current, which streams use a storage, and what the host waits
    for."""

    def record_stream(tensor: torch.Tensor, stream: Any) -> None:
        """Record that ``stream`` uses the tensor. torch's method rejects a stream from here as an argument before any mode
        sees the call."""
        with torch._C.DisableTorchFunction():
            ledger.used_on(tensor.untyped_storage(), stream.stream_id)

    card = _Card(ledger.streams)
    card.select(_DEFAULT)
    _cards.append(card)
    try:
        with Patches("streams keep memory") as patches:
            patches.replace(torch.Tensor, "record_stream", record_stream)
            yield
    finally:
        _cards.remove(card)


def synchronize(device: object = None) -> None:
    """Record that the host waited for all streams, as ``torch.cuda.synchronize``."""
    _device_streams().finish_all()


def current_stream(device: object = None) -> object:
    """Return the current stream of the followed card."""
    return _card().current


def default_stream(device: object = None) -> Stream:
    return _DEFAULT


def set_stream(stream: object) -> None:
    """Make ``stream`` current, unless it is None."""
    if stream is not None:
        _card().select(stream)
