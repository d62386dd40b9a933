"""The memory that a run reserves on a card, by phase, and the smallest card that suffices: the allocator's model, fed with a
ledger's trace during the run. Standard library only."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Sequence

from vgpu.allocator.model import AllocatorSettings, OutOfMemoryError
from vgpu.allocator.timing import TimingRange
from vgpu.meters.ledger import DEVICE, Event

#: Precision of the search for the smallest card, as a fraction of it.
_PRECISION = 1 / 500
#: But never finer than the unit in which segments are taken, bytes.
_SEGMENT = 2 << 20
#: The first step up from a card that fails, as a fraction of it.
_FIRST_STEP = 1 / 64
#: Events between the states that a replay can begin from. Copying a state takes as long as replaying some hundred
#: events.
STRIDE = 4096


class Reserving:
    """Follows a growing trace. Two allocators are kept up to date: one on a card without limit, one on the smallest card
    that was enough so far; only if the latter gets stuck is the trace replayed, on cards of several sizes. A card plays no
    part before it is full, so a replay begins from the last state in which the card had room for what was ever reserved
    (with expandable segments, whose address space is the card's, from the beginning).

    Less than what is reserved on a card without limit is enough for a run, as the allocator gives what it caches back before
    it fails; less than what is allocated is not. The smallest card is in between, but for expandable segments: their address
    space is little larger than the card, and in pieces it may take a larger one. It is enough whatever the timing of
    streams: for a GPU that is never behind the host, and for one that is as late as can be.
    """

    def __init__(self, trace: Sequence[Event], settings: AllocatorSettings, stride: int = STRIDE) -> None:
        self._trace = trace
        self._stride = stride
        self.settings = dataclasses.replace(settings, card_bytes=None)
        self._unlimited = TimingRange(self.settings)
        self._allocated_peak_bytes = self._reserved_peak_bytes = 0
        self._smallest = self._on(0)
        self._late_decides = True  #: whether the GPU that is late took the larger card when last searched for
        self._at = 0
        self._events: list[tuple[int, int]] = []  #: of the device, (key, bytes)
        #: (the most that was reserved so far in bytes, the device's events so far, the allocator on a card without limit)
        self._states: list[tuple[int, int, TimingRange]] = [(0, 0, self._on(0))]
        self._before = 0  #: the smallest card when the phase began
        self.smallest_card_bytes = 0  #: enough for all that has been followed so far
        self.too_small_bytes = 0  #: just below it, and not enough

    @property
    def reserved_peak_bytes(self) -> int:
        """The phase's peak on a card without limit, as ``torch.cuda.max_memory_reserved`` if the GPU is never behind."""
        return self._unlimited.prompt.reserved_peak_bytes

    @property
    def late_reserved_peak_bytes(self) -> int:
        """The upper bound of `reserved_peak_bytes`, whatever the timing of streams."""
        return self._unlimited.most_reserved_peak_bytes

    def begin(self) -> None:
        """Begin a phase."""
        self.follow()
        self._unlimited.reset_peak()
        self._before = self.smallest_card_bytes

    @property
    def allocated_peak_bytes(self) -> int:
        """The phase's peak of allocated bytes, as ``torch.cuda.max_memory_allocated``."""
        return self._unlimited.prompt.usage().allocated_peak_bytes

    @property
    def needed_bytes(self) -> int:
        """The card that the phase needs: the smallest card, if this phase made it larger; else the phase's peak of allocated
        bytes, for which the card of an earlier phase had room."""
        if self.smallest_card_bytes > self._before:
            return self.smallest_card_bytes
        return self.allocated_peak_bytes

    def follow(self) -> None:
        """Replay the events that were added to the trace since the last call."""
        added = [(key, nbytes) for key, nbytes, memory, _ in self._trace[self._at :] if memory == DEVICE]
        self._at = len(self._trace)
        self._events += added
        stuck = False
        for number, (key, nbytes) in enumerate(added, start=len(self._events) - len(added) + 1):
            self._unlimited.book(key, nbytes)
            if not stuck:
                try:
                    self._smallest.book(key, nbytes)
                except OutOfMemoryError:
                    stuck = True
            if number - self._states[-1][1] >= self._stride and not self.settings.expandable_segments:
                most = max(self._reserved_peak_bytes, self._unlimited.most_reserved_peak_bytes)
                self._states.append((most, number, self._unlimited.on_card(0)))
        self._allocated_peak_bytes = max(self._allocated_peak_bytes, self._unlimited.most_allocated_peak_bytes)
        self._reserved_peak_bytes = max(self._reserved_peak_bytes, self._unlimited.most_reserved_peak_bytes)
        if stuck:
            self._search()

    def _search(self) -> None:
        """Find the smallest card. Each card is tried under the GPU that decided last, and the one found under the other GPU
        too. If it is too small for that, the other GPU decides."""
        fails = max(self.smallest_card_bytes, self._allocated_peak_bytes - 1)
        enough = self._reserved_peak_bytes
        while len(self._states) > 1 and self._states[1][0] <= fails:
            del self._states[0]  # no card that is tried from here on is smaller
        while True:
            fails, enough, trial = self._smallest_between(fails, enough)
            found = trial.whole(enough)
            if found is not None:
                break
            if trial.allocators is not None:
                self._late_decides = not self._late_decides
            # Expandable segments may lack addresses on a card that has what is reserved without a limit.
            most = self._reserved_peak_bytes
            fails, enough = enough, most if enough < most else enough + enough // 8
        self.smallest_card_bytes, self.too_small_bytes = enough, fails
        self._smallest = found

    def _smallest_between(self, fails: int, enough: int) -> tuple[int, int, _Trial]:
        """Go up from a card that fails, in growing steps as it is seldom much smaller than what suffices, then bisect.
        Return both ends of the remaining interval, and the trial of the upper one."""
        step = max(_SEGMENT, int(fails * _FIRST_STEP))
        trials: list[_Trial] = []

        def tried(card_bytes: int) -> _Trial:
            trial = next((trial for trial in trials if trial.tells_of(card_bytes)), None)
            if trial is None:
                trials.append(trial := self._tried(card_bytes))
            return trial

        while enough - fails > max(_SEGMENT, enough * _PRECISION):
            middle = min((fails + enough) // 2, fails + step)
            if tried(middle).allocators is None:
                fails, step = middle, 2 * step
            else:
                enough = middle
        return fails, enough, tried(enough)

    def _tried(self, card_bytes: int) -> _Trial:
        """Replay the trace so far on a card, for the GPU that decides."""
        most, begin, state = self._states[bisect_right(self._states, card_bytes, key=lambda state: state[0]) - 1]
        allocators = state.on_card(card_bytes) if begin else self._on(card_bytes)
        events = self._events[begin:]
        allocators.tell_apart(events)
        is_enough = allocators.replay(events, late=self._late_decides)
        one = allocators.late if self._late_decides else allocators.prompt
        least, refused = max(most, one.reserved_peak_bytes), one.refused_bytes
        if self.settings.expandable_segments:
            least, refused = card_bytes, card_bytes + 1
        return _Trial(least, refused, allocators if is_enough else None, events, self._late_decides)

    def _on(self, card_bytes: int) -> TimingRange:
        return TimingRange(dataclasses.replace(self.settings, card_bytes=card_bytes))


@dataclasses.dataclass(frozen=True)
class _Trial:
    """The result of a replay on one card, for one GPU, which holds for other cards: one that has room for what was reserved,
    and none for what was refused, does the same at every step (but for expandable segments, whose address space is the
    card's)."""

    reserved_bytes: int  #: at most
    refused_bytes: int | None  #: at least
    allocators: TimingRange | None  #: None where the card is too small
    events: Sequence[tuple[int, int]]  #: which the other GPU has yet to replay
    late_decides: bool  #: whether this one is late

    def tells_of(self, card_bytes: int) -> bool:
        """Return True if a card of ``card_bytes`` would do the same at every step."""
        return self.reserved_bytes <= card_bytes and (self.refused_bytes is None or card_bytes < self.refused_bytes)

    def whole(self, card_bytes: int) -> TimingRange | None:
        """Return the allocators on a card that the trial holds for, with both GPUs; None if it is too small for either."""
        if self.allocators is None:
            return None
        both = self.allocators.on_card(card_bytes)
        if both.late is not both.prompt and not both.replay(self.events, late=not self.late_decides):
            return None
        return both
