"""The streams of a device: which one is current, and which frees wait for which of them. Standard library only.

A GPU works behind the host, in as many orders as it has streams. How far behind depends on timing, which no simulation
has. So two extremes are distinguished: a GPU that is never behind, for which nothing here matters, and one that does
nothing before the host waits for it. `DeviceStreams` follows the second: what the host has waited for, and all that came
before it, is done; nothing else is. The host also waits when a stream's queue of launches is full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

#: Launches that a stream's queue takes before the next one blocks the host: about a thousand for each stream
#: (https://forums.developer.nvidia.com/t/cuda-stream-are-blocked-when-luanch-lots-of-kernels-1000/68937). An operator counts
#: as one, and has at least one, so that the host is never assumed to have waited when it has not.
QUEUED_LAUNCHES = 1024

#: A point of the device's work: stream -> the number of delayed frees on it that come before. For a stream that waited for
#: others, theirs are included.
Mark = Mapping[int, int]


class DeviceStreams:
    """Calls ``settle`` to book the frees so far, and ``passed`` with the number of each delayed free whose streams are
    done. With ``late=False`` the GPU is never behind: no free is delayed, and everything is done."""

    def __init__(self, *, late: bool, settle: Callable[[], None], passed: Callable[[int], None]) -> None:
        #: Returns the number of operators that the host has launched so far, on all streams.
        self.launches: Callable[[], int] = lambda: 0
        self._current = 0  #: the default stream is 0
        self._since = 0  #: launches when it became current
        self._launched: dict[int, int] = {}  #: stream -> launches on it before that
        self._queues: dict[int, deque[tuple[int, Mark]]] = {}  #: stream -> (launches on it so far, its work so far)
        self._late = late
        self._settle = settle
        self._passed = passed
        self._delayed = 0  #: frees so far
        self._on: dict[int, int] = {}  #: stream -> how many of them
        self._after: dict[int, dict[int, int]] = {}  #: stream -> the work of others that its further work comes after
        self._done: dict[int, int] = {}
        self._waiting: dict[int, Mark] = {}  #: number of a delayed free -> what it waits for
        self._asked: Mark | None = None

    @property
    def current(self) -> int:
        """Return the number of the current stream. Setting it counts the launches so far for the stream before."""
        return self._current

    @current.setter
    def current(self, stream: int) -> None:
        now = self.launches()
        self._launched[self._current] = self._launched.get(self._current, 0) + now - self._since
        self._current, self._since = stream, now

    def delay(self, streams: Iterable[int]) -> int:
        """Delay the free of a storage that these streams use. Return the number of the free; 0 if it waits for nothing."""
        if not self._late:
            return 0
        for stream in streams:
            self._on[stream] = self._on.get(stream, 0) + 1
        self._delayed += 1
        self._waiting[self._delayed] = {stream: self._on[stream] for stream in streams}
        self._asked = None
        for stream in streams:
            self._wait_where_full(stream)
        return self._delayed

    def _wait_where_full(self, stream: int) -> None:
        """Finish the work that is so long ago that the stream's queue has no room for it."""
        here = self.launches() - self._since if stream == self._current else 0
        launched = self._launched.get(stream, 0) + here
        queue = self._queues.setdefault(stream, deque())
        queue.append((launched, {**self._after.get(stream, {}), stream: self._on[stream]}))
        done = None
        while queue[0][0] <= launched - QUEUED_LAUNCHES:
            done = queue.popleft()[1]
        if done is not None:
            self.finish(done)

    def mark(self, stream: int) -> Mark:
        """Return a mark after all work of a stream so far, as an event records it."""
        self._asked = None
        return self._so_far(stream)

    def wait(self, stream: int, mark: Mark) -> None:
        """Make further work of the stream come after the mark."""
        _advance(self._after.setdefault(stream, {}), mark)

    def is_done(self, mark: Mark) -> bool:
        """Return what the host learns from a query. If it queries again, with no work in between, it waits: then the
        work is done."""
        if not self._late or all(self._done.get(stream, 0) >= number for stream, number in mark.items()):
            return True
        if self._asked == mark:
            self.finish(mark)
            return True
        self._asked = mark
        return False

    def is_stream_done(self, stream: int) -> bool:
        """Return `is_done` of all work of a stream so far."""
        return self.is_done(self._so_far(stream))

    def finish(self, mark: Mark) -> None:
        """Record that the host has waited for the mark."""
        if not self._late:
            return
        _advance(self._done, mark)
        self._asked = None
        for number, wanted in list(self._waiting.items()):
            if all(self._done.get(stream, 0) >= at for stream, at in wanted.items()):
                del self._waiting[number]
                self._passed(number)

    def finish_stream(self, stream: int | None = None) -> None:
        """Record that the host has waited for all work of a stream, by default the current one."""
        self.finish(self.mark(self.current if stream is None else stream))

    def finish_all(self) -> None:
        """Record that the host has waited for the device."""
        self._settle()
        self.finish(dict(self._on))

    def _so_far(self, stream: int) -> Mark:
        self._settle()
        return {**self._after.get(stream, {}), stream: self._on.get(stream, 0)}


def _advance(known: dict[int, int], mark: Mark) -> None:
    for stream, number in mark.items():
        known[stream] = max(known.get(stream, 0), number)
