"""A model of PyTorch's CUDA caching allocator: what a card gives for a given order of allocations and frees.

Standard library only, no GPU, no torch. The rules were read in ``c10/cuda/CUDACachingAllocator.cpp`` and
``c10/core/AllocatorConfig.h`` of PyTorch; ``docs/allocator.md`` lists each rule with its function there, the versions
that were read, and what the model leaves out. In short:

- sizes are rounded up to 512 bytes (`round_size`); up to 1 MiB they come from the small pool, above from the large one;
- a pool hands out the smallest free block that is large enough, at the lowest address among equals (`get_free_block`),
  and cuts off what is left over where that is worth it (`should_split`); free neighbours are merged
  (`try_merge_blocks`);
- where no block fits, a new segment is taken from the card (`get_allocation_size`): 2 MiB for the small pool, 20 MiB
  for requests under 10 MiB, else the request rounded up to 2 MiB;
- where the card is full, segments that are wholly free go back to it (`release_available_cached_blocks`,
  `release_cached_blocks`) before the request fails;
- with expandable segments each pool has one segment that grows by pages, of 2 MiB in the small pool and 20 in the large;
- a segment belongs to the stream that was current when it was taken, and its blocks serve no other;
- a freed block that other streams use (`record_stream`) is free once they are done with it (`insert_events`,
  `process_events`). When that is depends on timing: see `AllocatorSettings.late`.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left

from vgpu.allocator.blocks import (
    ADDRESS_BITS,
    FIRST_ADDRESS,
    LARGE_SEGMENT,
    SMALL,
    UNIT,
    Block,
    Pool,
    growable,
    segment_units,
)
from vgpu.meters.ledger import CACHE_EMPTIED, FREE_DELAYED, FREE_PASSED, STREAM_SELECTED, noted

#: Address space of an expandable segment on a card without limit (32 TiB), units.
_ENDLESS = 1 << 36


class OutOfMemoryError(MemoryError):
    """The card cannot satisfy a request, even after everything cached was given back to it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AllocatorSettings:
    """The allocator's options, by their names in ``PYTORCH_CUDA_ALLOC_CONF``, and the card."""

    expandable_segments: bool = False
    max_split_size_bytes: int | None = None  #: blocks from this size on are never split; None: every block may be
    card_bytes: int | None = None  #: what the card has for the allocator; None: no limit
    #: whether the GPU does nothing before the host waits for it, so that what other streams use is free as late as
    #: possible; else it is never behind
    late: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Usage:
    """The memory use of one phase."""

    reserved_peak_bytes: int  #: segments taken from the card
    allocated_peak_bytes: int  #: blocks handed out, rounded
    fragmentation_bytes: int  #: reserved but not handed out, at the moment of ``allocated_peak_bytes``


class CachingAllocator:
    """The allocator of one device. Sizes are in bytes; ``key`` identifies an allocation to its owner."""

    def __init__(self, settings: AllocatorSettings = AllocatorSettings()) -> None:
        self.settings = settings
        self.retries = 0
        #: The least that it would have had to reserve where the card was full; None where it never was
        self.refused_bytes: int | None = None
        self._expandable = settings.expandable_segments
        self._max_split = None if settings.max_split_size_bytes is None else settings.max_split_size_bytes // UNIT
        self._capacity = None if settings.card_bytes is None else settings.card_bytes // UNIT
        self._pools: dict[int, tuple[Pool, Pool]] = {}  #: stream -> its small pool and its large one
        self._stream = 0
        self._live: dict[int, tuple[Block, int]] = {}
        self._delayed: dict[int, Block] = {}  #: number of a delayed free -> what was freed, and other streams still use
        self._delay = 0  #: the number of the next free, where that is delayed
        self._next_address = 0
        self._reserved = self._allocated = 0
        self._reserved_peak = self._allocated_peak = self._reserved_then = 0

    def on_card(self, card_bytes: int | None) -> CachingAllocator:
        """Return a copy of this allocator, as it would be on another card. Valid if both cards have had room for all that
        was ever reserved: a card's size plays no part before it is full (with expandable segments it does)."""
        return self._copied(dataclasses.replace(self.settings, card_bytes=card_bytes))

    def made_late(self) -> CachingAllocator:
        """Return a copy of this allocator, for a GPU that is late from now on."""
        return self._copied(dataclasses.replace(self.settings, late=True))

    def _copied(self, settings: AllocatorSettings) -> CachingAllocator:
        other = CachingAllocator(settings)
        pools = [
            (ours, theirs)
            for stream, pair in self._pools.items()
            for ours, theirs in zip(pair, other._pools_of(stream), strict=True)
        ]
        idle = [block for ours, _ in pools for block in (*ours.free.values(), *ours.unmapped_blocks.values())]
        copies = {block: block.copy() for block in (*self.blocks(), *self._delayed.values(), *idle)}
        for block, copy in copies.items():
            copy.before = copies[block.before] if block.before is not None else None
            copy.after = copies[block.after] if block.after is not None else None
        other._live = {key: (copies[block], nbytes) for key, (block, nbytes) in self._live.items()}
        other._delayed = {number: copies[block] for number, block in self._delayed.items()}
        other._delay = self._delay
        for ours, theirs in pools:
            theirs.keys, theirs.unmapped = list(ours.keys), list(ours.unmapped)
            theirs.free = {start: copies[block] for start, block in ours.free.items()}
            theirs.unmapped_blocks = {start: copies[block] for start, block in ours.unmapped_blocks.items()}
        other.retries, other._next_address, other._stream = self.retries, self._next_address, self._stream
        other._reserved, other._allocated = self._reserved, self._allocated
        other._reserved_peak, other._allocated_peak = self._reserved_peak, self._allocated_peak
        other._reserved_then = self._reserved_then
        return other

    # -- figures -----------------------------------------------------------------------------------------------------

    @property
    def reserved_bytes(self) -> int:
        """The bytes of all segments taken from the card."""
        return self._reserved * UNIT

    @property
    def allocated_bytes(self) -> int:
        """The bytes of all blocks handed out, rounded."""
        return self._allocated * UNIT

    @property
    def reserved_peak_bytes(self) -> int:
        """The peak since the last `reset_peak`, as ``torch.cuda.max_memory_reserved``."""
        return self._reserved_peak * UNIT

    def usage(self) -> Usage:
        """Return the usage since the last `reset_peak`."""
        return Usage(
            reserved_peak_bytes=self._reserved_peak * UNIT,
            allocated_peak_bytes=self._allocated_peak * UNIT,
            fragmentation_bytes=(self._reserved_then - self._allocated_peak) * UNIT,
        )

    def reset_peak(self) -> None:
        """Start the peaks anew, from what is reserved and allocated now."""
        self._reserved_peak = self._reserved_then = self._reserved
        self._allocated_peak = self._allocated

    # -- the ledger's events -----------------------------------------------------------------------------------------

    def book(self, key: int, nbytes: int) -> None:
        """Replay one event of a ledger: the storage ``key`` grows or shrinks by ``nbytes``. A storage that is resized gets
        its new block before it gives the old one back (`at::native::resize_bytes_cuda`). Raise OutOfMemoryError if the card
        is full."""
        if key < 0:
            self._follow(*noted(key))
            return
        held = self._live.pop(key, None)
        size = nbytes if held is None else held[1] + nbytes
        if size > 0:
            try:
                self._allocate(key, size)
            except OutOfMemoryError:
                if held is not None:
                    self._live[key] = held
                raise
        if held is not None:
            self._free(held[0])

    def _follow(self, kind: int, number: int) -> None:
        """Follow a note of the ledger: an event other than an allocation or a free."""
        if kind == CACHE_EMPTIED:
            self.empty_cache()
        elif kind == STREAM_SELECTED:
            self._stream = number
        elif kind == FREE_DELAYED and self.settings.late:
            self._delay = number
        elif kind == FREE_PASSED and number in self._delayed:
            self._release(self._delayed.pop(number))

    def allocate(self, key: int, nbytes: int) -> None:
        """Hand out a block of at least ``nbytes``. Raise OutOfMemoryError if the card is full."""
        self._allocate(key, nbytes)

    def free(self, key: int) -> None:
        """Take the block of ``key`` back."""
        self._free(self._live.pop(key)[0])

    def empty_cache(self) -> None:
        """Give wholly free segments, or pages of expandable ones, back to the card, after waiting for all delayed frees
        (`synchronize_and_free_events`)."""
        for block in self._delayed.values():
            self._release(block)
        self._delayed.clear()
        for small, large in self._pools.values():
            for pool in (large, small):
                for block in list(pool.free.values()):
                    if block.base is not None:
                        self._unmap(pool, block)
                    elif block.before is None and block.after is None:
                        self._give_back(pool, block)

    def address(self, key: int) -> int:
        """Return the address of the block of ``key``; 0 if it has none."""
        held = self._live.get(key)
        return 0 if held is None else FIRST_ADDRESS + held[0].start * UNIT

    def blocks(self) -> list[Block]:
        """Return every block that is handed out, in no particular order."""
        return [block for block, _ in self._live.values()]

    # -- handing out -------------------------------------------------------------------------------------------------

    def _allocate(self, key: int, nbytes: int) -> None:
        size = -(-nbytes // UNIT) or 1
        small, large = self._pools_of(self._stream)
        pool = small if size <= SMALL else large
        block = self._best_fit(pool, size) or self._obtain(pool, size, nbytes)
        rest = block.size - size
        if rest and self._worth_splitting(pool, size, rest):
            remainder = Block(block.start + size, rest, block.base, block.stream)
            remainder.before, remainder.after = block, block.after
            if block.after is not None:
                block.after.before = remainder
            block.after = remainder
            block.size = size
            pool.insert(remainder)
        block.free = False
        self._live[key] = (block, nbytes)
        allocated = self._allocated = self._allocated + block.size
        if allocated > self._allocated_peak:
            self._allocated_peak, self._reserved_then = allocated, self._reserved

    def _best_fit(self, pool: Pool, size: int) -> Block | None:
        keys = pool.keys
        index = bisect_left(keys, size << ADDRESS_BITS)
        if index == len(keys):
            return None
        block = pool.at(index)
        if self._expandable:
            # A block that can still grow counts as large as it can become, so others go first.
            while index + 1 < len(keys) and growable(other := pool.at(index + 1)) < growable(block):
                block, index = other, index + 1
        limit = self._max_split
        if limit is not None and (
            (size < limit <= block.size) or (size >= limit and block.size >= size + LARGE_SEGMENT)
        ):
            return None
        return pool.take(index)

    def _worth_splitting(self, pool: Pool, size: int, rest: int) -> bool:
        if pool.small or self._expandable:
            return True
        return rest > SMALL and (self._max_split is None or size < self._max_split)

    def _free(self, block: Block) -> None:
        """Take a block back from its owner."""
        self._allocated -= block.size
        if self._delay:
            self._delayed[self._delay] = block
            self._delay = 0
        else:
            self._release(block)

    def _release(self, block: Block) -> None:
        """Make a block that nothing uses any more free for others."""
        pool = self._pool_of(block)
        block.free = True
        self._merge(pool, block)
        pool.insert(block)

    def _pool_of(self, block: Block) -> Pool:
        # A small request's block is never larger than the small pool's limit: its remainder is always split off.
        small, large = self._pools[block.stream]
        return small if block.size <= SMALL else large

    def _pools_of(self, stream: int) -> tuple[Pool, Pool]:
        found = self._pools.get(stream)
        if found is None:
            found = self._pools[stream] = Pool(small=True, stream=stream), Pool(small=False, stream=stream)
        return found

    def _merge(self, pool: Pool, block: Block) -> None:
        """Merge the free neighbours of a block that is in no list into it."""
        before, after = block.before, block.after
        if before is not None and before.free and before.mapped == block.mapped:
            pool.remove(before)
            block.start, block.size, block.before = before.start, block.size + before.size, before.before
            if block.before is not None:
                block.before.after = block
        if after is not None and after.free and after.mapped == block.mapped:
            pool.remove(after)
            block.size, block.after = block.size + after.size, after.after
            if block.after is not None:
                block.after.before = block

    # -- the card ----------------------------------------------------------------------------------------------------

    def _obtain(self, pool: Pool, size: int, nbytes: int) -> Block:
        """Return a block that is not in the pool yet. Raise OutOfMemoryError if the card is full."""
        block = self._more(pool, size)
        if block is None and self._give_back_oversize(pool, size):
            block = self._more(pool, size)
        if block is None:
            self.empty_cache()
            self.retries += 1
            block = self._more(pool, size)
        if block is None:
            raise OutOfMemoryError(
                f"out of memory: tried to allocate {nbytes} bytes on a card with {self.settings.card_bytes} for the "
                f"allocator; {self.reserved_bytes} are reserved, of which {self.allocated_bytes} are in use"
            )
        return block

    def _more(self, pool: Pool, size: int) -> Block | None:
        if self._expandable:
            return self._expand(pool, size)
        length = segment_units(size)
        if not self._take(length):
            return None
        block = Block(self._next_address, length, None, pool.stream)
        self._next_address += length
        return block

    def _take(self, length: int) -> bool:
        reserved = self._reserved + length
        if self._capacity is not None and reserved > self._capacity:
            self.refused_bytes = min(reserved * UNIT, self.refused_bytes or reserved * UNIT)
            return False
        self._reserved = reserved
        if reserved > self._reserved_peak:
            self._reserved_peak = reserved
        return True

    def _give_back(self, pool: Pool, block: Block) -> None:
        pool.remove(block)
        self._reserved -= block.size

    def _give_back_oversize(self, pool: Pool, size: int) -> bool:
        """Give back only as many of the blocks above ``max_split_size`` as the request needs. Return True if that is
        enough."""
        if self._max_split is None or self._expandable:
            return False
        wanted = max(size, self._max_split)
        index = bisect_left(pool.keys, wanted << ADDRESS_BITS)
        if index < len(pool.keys):
            self._give_back(pool, pool.at(index))
            return True
        given = 0
        while index and given < wanted:
            index -= 1
            block = pool.at(index)
            if block.size < self._max_split:
                break
            given += block.size
            self._give_back(pool, block)
        return given >= wanted

    # -- expandable segments -----------------------------------------------------------------------------------------

    def _expand(self, pool: Pool, size: int) -> Block | None:
        """Return a block of an expandable segment; None if the card is full (`try_allocate_expandable_block`)."""
        block = self._room(pool, size)
        if not block.mapped and not self._map(pool, block, min(block.size, size)):
            return None
        while block.size < size:
            following = block.after
            assert following is not None
            assert not following.mapped
            if not self._map(pool, following, min(size - block.size, following.size)):
                return None
            block = following  # it has taken the block before it in
        pool.remove(block)
        return block

    def _room(self, pool: Pool, size: int) -> Block:
        """Return the block at the lowest address with enough free or unmapped room behind it (`find_expandable_block`)."""
        for start in pool.unmapped:
            block = pool.unmapped_blocks[start]
            if block.before is not None and block.before.free:
                block = block.before
            room, at = 0, block
            while room < size and at is not None and at.free:
                room, at = room + at.size, at.after  # type: ignore[assignment]
            if room >= size:
                return block
        # Room for an eighth more than the card has, so that pages can move to the end.
        space = _ENDLESS if self._capacity is None else self._capacity + self._capacity // 8
        length = max(1, -(-space // pool.page)) * pool.page
        block = Block(self._next_address, length, self._next_address, pool.stream)
        block.mapped = False
        self._next_address += block.size
        pool.insert(block)
        return block

    def _map(self, pool: Pool, block: Block, size: int) -> bool:
        """Put pages behind the beginning of an unmapped block, which is a free block of the pool afterwards, merged with its
        neighbours. Return False if there is no room for them."""
        length = -(-size // pool.page) * pool.page
        if length > block.size or not self._take(length):
            return False
        pool.remove(block)
        if length < block.size:
            rest = Block(block.start + length, block.size - length, block.base, block.stream)
            rest.mapped = False
            rest.before, rest.after = block, block.after
            if block.after is not None:
                block.after.before = rest
            block.after, block.size = rest, length
            pool.insert(rest)
        block.mapped = True
        self._merge(pool, block)
        pool.insert(block)
        return True

    def _unmap(self, pool: Pool, block: Block) -> None:
        """Give the whole pages of a free block back (`unmap_block`)."""
        assert block.base is not None
        begin = block.base + -(-(block.start - block.base) // pool.page) * pool.page
        end = block.base + (block.start + block.size - block.base) // pool.page * pool.page
        if begin >= end:
            return
        pool.remove(block)
        for start, size in ((block.start, begin - block.start), (end, block.start + block.size - end)):
            if size:
                piece = Block(start, size, block.base, block.stream)
                if start < begin:
                    piece.before, piece.after = block.before, block
                    block.before = piece
                else:
                    piece.before, piece.after = block, block.after
                    block.after = piece
                if piece.before is not None:
                    piece.before.after = piece
                if piece.after is not None:
                    piece.after.before = piece
                pool.insert(piece)
        block.start, block.size, block.mapped = begin, end - begin, False
        self._reserved -= block.size
        self._merge(pool, block)
        if block.before is not None or block.after is not None:  # else all of the segment is gone
            pool.insert(block)
