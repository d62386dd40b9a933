"""The effect of a GPU's stream timing on the same allocations: the allocator's model at both extremes. Standard library
only."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu.allocator.model import AllocatorSettings, CachingAllocator, OutOfMemoryError
from vgpu.meters.ledger import FREE_DELAYED, noted


class TimingRange:
    """One card under a GPU that is never behind the host, and under one that is as far behind as it can be
    (`AllocatorSettings.late`). Both are the same up to the first free that is delayed. A real GPU is in between."""

    def __init__(self, settings: AllocatorSettings) -> None:
        self.prompt = CachingAllocator(settings)
        self._late: CachingAllocator | None = None

    @property
    def late(self) -> CachingAllocator:
        """The allocator of the late GPU; the prompt one's until a free is delayed."""
        return self._late or self.prompt

    def book(self, key: int, nbytes: int) -> None:
        """Book an event as `CachingAllocator.book`. Raise OutOfMemoryError if either GPU fails, after which neither may be
        used."""
        if self._late is None and key < 0 and noted(key)[0] == FREE_DELAYED:
            self._late = self.prompt.made_late()
        self.prompt.book(key, nbytes)
        if self._late is not None:
            self._late.book(key, nbytes)

    def tell_apart(self, events: Sequence[tuple[int, int]]) -> None:
        """Make two GPUs of one if any of these frees, which come next, is delayed: each can then book them by itself."""
        if self._late is None and any(key < 0 and noted(key)[0] == FREE_DELAYED for key, _ in events):
            self._late = self.prompt.made_late()

    def replay(self, events: Sequence[tuple[int, int]], *, late: bool) -> bool:
        """Book all of these under one GPU, after `tell_apart`. Return False if the card is too small for it."""
        book = (self.late if late else self.prompt).book
        try:
            for key, nbytes in events:
                book(key, nbytes)
        except OutOfMemoryError:
            return False
        return True

    def on_card(self, card_bytes: int | None) -> TimingRange:
        """Return a copy on another card, as `CachingAllocator.on_card`."""
        other = TimingRange(self.prompt.settings)
        other.prompt = self.prompt.on_card(card_bytes)
        other._late = self._late and self._late.on_card(card_bytes)
        return other

    def reset_peak(self) -> None:
        """Start the peaks of both GPUs anew."""
        self.prompt.reset_peak()
        if self._late is not None:
            self._late.reset_peak()

    @property
    def most_reserved_bytes(self) -> int:
        """The upper bound of the reserved bytes, whatever the timing."""
        return max(self.prompt.reserved_bytes, self.late.reserved_bytes)

    @property
    def most_reserved_peak_bytes(self) -> int:
        """The upper bound of the reserved bytes since the last `reset_peak`."""
        return max(self.prompt.reserved_peak_bytes, self.late.reserved_peak_bytes)

    @property
    def most_allocated_peak_bytes(self) -> int:
        """The larger peak of both GPUs. Both allocate the same, but for remainders that are not worth splitting off."""
        return max(self.prompt.usage().allocated_peak_bytes, self.late.usage().allocated_peak_bytes)
