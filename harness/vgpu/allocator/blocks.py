"""Blocks of memory and the lists that find them: the bookkeeping of `allocator.model`. Standard library only.

Sizes and addresses are counted in units of 512 bytes; names in quotes are those of PyTorch's ``c10``.
"""

from __future__ import annotations

from bisect import bisect_left, insort

#: `kMinBlockSize`, bytes. Everything below counts in units of it, addresses included.
UNIT = 512

_MIB = (1 << 20) // UNIT
SMALL = _MIB  #: `kSmallSize`: the largest request of the small pool
SMALL_SEGMENT = 2 * _MIB  #: `kSmallBuffer`
_MIN_LARGE = 10 * _MIB  #: `kMinLargeAlloc`: from here on a segment is made to measure
LARGE_SEGMENT = 20 * _MIB  #: `large_segment_size`, formerly `kLargeBuffer`
_ROUND_LARGE = 2 * _MIB  #: `kRoundLarge`

#: A free block is found by (size, address), packed into one integer that sorts alike.
ADDRESS_BITS = 44
_ADDRESS = (1 << ADDRESS_BITS) - 1

#: Where the first segment begins, bytes: above all addresses of a process on the host.
FIRST_ADDRESS = 1 << 48


class Block:
    """A piece of a segment. Neighbours are linked in order of address, and none is missing between them."""

    __slots__ = ("after", "base", "before", "free", "mapped", "size", "start", "stream")

    def __init__(self, start: int, size: int, base: int | None, stream: int) -> None:
        self.stream = stream  #: that its segment was allocated on, and the only one that it serves
        self.start = start
        self.size = size
        self.base = base  #: where its expandable segment begins; None in a segment of fixed size
        self.free = True
        self.mapped = True  #: whether pages are behind it; False in expandable segments only
        self.before: Block | None = None
        self.after: Block | None = None

    def copy(self) -> Block:
        """Return a copy without neighbours."""
        other = Block(self.start, self.size, self.base, self.stream)
        other.free, other.mapped = self.free, self.mapped
        return other


class Pool:
    """The free blocks of one pool and stream, found by best fit in logarithmic time, and its unmapped address ranges."""

    def __init__(self, *, small: bool, stream: int) -> None:
        self.small = small
        self.stream = stream
        self.page = SMALL_SEGMENT if small else LARGE_SEGMENT
        self.keys: list[int] = []
        self.free: dict[int, Block] = {}  #: by address
        self.unmapped: list[int] = []
        self.unmapped_blocks: dict[int, Block] = {}

    def insert(self, block: Block) -> None:
        """Add a block to the list of free blocks, or of unmapped address ranges."""
        if block.mapped:
            insort(self.keys, block.size << ADDRESS_BITS | block.start)
            self.free[block.start] = block
        else:
            insort(self.unmapped, block.start)
            self.unmapped_blocks[block.start] = block

    def remove(self, block: Block) -> None:
        """Remove a block from its list."""
        if block.mapped:
            del self.keys[bisect_left(self.keys, block.size << ADDRESS_BITS | block.start)]
            del self.free[block.start]
        else:
            del self.unmapped[bisect_left(self.unmapped, block.start)]
            del self.unmapped_blocks[block.start]

    def at(self, index: int) -> Block:
        """Return the free block at ``index`` in the order of size and address."""
        return self.free[self.keys[index] & _ADDRESS]

    def take(self, index: int) -> Block:
        """Remove and return the free block at ``index``."""
        return self.free.pop(self.keys.pop(index) & _ADDRESS)


def segment_units(size: int) -> int:
    """Return the size of the segment for a request that no free block fits, in units (`get_allocation_size`)."""
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < _MIN_LARGE:
        return LARGE_SEGMENT
    return -(-size // _ROUND_LARGE) * _ROUND_LARGE


def growable(block: Block) -> int:
    """Return the size of a free block together with the unmapped room behind it, in units."""
    after = block.after
    return block.size + (after.size if after is not None and not after.mapped else 0)
