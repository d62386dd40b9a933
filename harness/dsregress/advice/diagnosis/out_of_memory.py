"""Parse out-of-memory messages, in each form that PyTorch and the driver write. Pure.

Sources: c10/cuda/CUDACachingAllocator.cpp (its text since 2.1, and the one in brackets before that),
c10/cuda/CUDAMallocAsyncAllocator.cpp, c10/core/impl/alloc_cpu.cpp, and the error strings of CUDA, cuBLAS, cuDNN and NCCL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

_UNITS = {"bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = r"(\d{1,15}(?:\.\d{1,6})?) ?(bytes|[KMGT]iB|B)\b"

#: The native allocator asks the driver for whole blocks of this size (kRoundLarge), and reports that.
ROUNDING_BYTES = 2 << 20

_REQUESTED = re.compile(rf"[Tt]ried to allocate {_SIZE}|Requested\s*: {_SIZE}")
_GPU = re.compile(r"GPU (\d+)")
_FIGURES = {
    "capacity": re.compile(rf"total capac(?:i)?ty of {_SIZE}|{_SIZE} total capacity|Device limit\s*: {_SIZE}"),
    "free": re.compile(rf"of which {_SIZE} is free|{_SIZE} free[;)]|Free \(according to CUDA\)\s*: {_SIZE}"),
    "own": re.compile(rf"this process has {_SIZE} memory in use"),
    "allocated": re.compile(
        rf"{_SIZE} is allocated by PyTorch|{_SIZE} already allocated|Currently allocated\s*: {_SIZE}"
    ),
    "unallocated": re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated"),
    "reserved": re.compile(rf"{_SIZE} reserved in total by PyTorch|{_SIZE} cached"),
}
_OTHERS = re.compile(rf"Process \d+ has {_SIZE} memory in use")

#: Messages of the host's own allocator, and of CUDA's libraries that ran out of memory and give no size.
_HOST = re.compile(r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|std::bad_alloc")
#: Reports of the kernel, Slurm, Kubernetes and Ray that they ended a process for the host's memory.
_OF_SYSTEM = r"\boom[-_]kill\b|\bOOM[ _]?Killed\b|\bout of memory: kill|^srun: error: .{0,200}: Out Of Memory"
_ENDED_FOR_MEMORY = re.compile(rf"{_OF_SYSTEM}|node running low on memory", re.IGNORECASE | re.MULTILINE)
_UNSIZED = re.compile(
    r"CUDA error: out of memory|cudaErrorMemoryAllocation|Cuda failure \d+ 'out of memory'|CUBLAS_STATUS_ALLOC_FAILED"
    r"|CUDNN_STATUS_ALLOC_FAILED|CUDA driver error: out of memory|NVML_SUCCESS == \w+ INTERNAL ASSERT FAILED"
    r"|CUDA out of memory|\bOutOfMemoryError\b"
)

#: Figures are read up to here, in characters: a message has some 700, and each listed process adds a line.
_LENGTH = 4_000


class WrittenSize(msgspec.Struct, frozen=True):
    """A size as a message writes it, rounded to its last digit."""

    text: str  #: ``4.64 GiB``
    nbytes: float
    rounding_bytes: float  #: half of its last digit


class MemoryMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an out-of-memory message; None for each figure that it leaves out."""

    where: str  #: ``device`` or ``host``
    is_of_another: bool = False  #: it is the report of what ended the process
    gpu: int | None = None
    requested: WrittenSize | None = None
    capacity: WrittenSize | None = None
    free: WrittenSize | None = None
    own: WrittenSize | None = None  #: of this process, its CUDA context and libraries included
    allocated: WrittenSize | None = None  #: by PyTorch
    unallocated: WrittenSize | None = None  #: reserved by PyTorch, used by no tensor
    others: tuple[WrittenSize, ...] = ()  #: of other processes, if it lists them

    @property
    def others_bytes(self) -> float | None:
        """Return the bytes that other processes hold; None if the message does not say."""
        if self.others:
            return sum(one.nbytes for one in self.others)
        if self.capacity is None or self.free is None or self.own is None:
            return None
        return max(0.0, self.capacity.nbytes - self.free.nbytes - self.own.nbytes)

    @property
    def outside_bytes(self) -> float | None:
        """Return the bytes that this process holds outside PyTorch's allocator; None if the message does not say."""
        if self.own is None or self.allocated is None or self.unallocated is None:
            return None
        return max(0.0, self.own.nbytes - self.allocated.nbytes - self.unallocated.nbytes)


def read_memory_message(text: str) -> MemoryMessage | None:
    """Return the message in ``text``, of several the first that gives a size; None if memory did not run out."""
    requested = _REQUESTED.search(text)
    host = _HOST.search(text)
    if host is not None and (requested is None or requested.start() - host.end() < 200):
        return MemoryMessage(where="host", requested=_written_size(requested) if requested else None)
    if requested is None and _ENDED_FOR_MEMORY.search(text):
        return MemoryMessage(where="host", is_of_another=True)
    if requested is None:
        return MemoryMessage(where="device") if _UNSIZED.search(text) else None
    message = text[max(0, requested.start() - 200) : requested.start() + _LENGTH]
    message = _before_the_next(message, requested.start() - max(0, requested.start() - 200))
    figures = {name: pattern.search(message) for name, pattern in _FIGURES.items()}
    found = {name: _written_size(match) for name, match in figures.items() if match is not None}
    reserved = found.pop("reserved", None)
    if reserved is not None and "allocated" in found:
        found["unallocated"] = _less(reserved, found["allocated"])
    others = [_written_size(match) for match in _OTHERS.finditer(message)]
    if "own" not in found and (own := _of_this_process(others, found)) is not None:
        found["own"] = own
        others.remove(own)
    gpu = _GPU.search(message)
    return MemoryMessage(
        where="device",
        gpu=int(gpu[1]) if gpu else None,
        requested=_written_size(requested),
        others=tuple(others),
        capacity=found.get("capacity"),
        free=found.get("free"),
        own=found.get("own"),
        allocated=found.get("allocated"),
        unallocated=found.get("unallocated"),
    )


def _of_this_process(listed: Sequence[WrittenSize], found: Mapping[str, WrittenSize]) -> WrittenSize | None:
    """Return the size of this process: the smallest that holds at least what PyTorch reserved; None if none does. In a
    container PyTorch cannot identify its own process by number."""
    parts = [found[name] for name in ("allocated", "unallocated") if name in found]
    least = sum(one.nbytes - one.rounding_bytes for one in parts)
    large = [one for one in listed if one.nbytes + one.rounding_bytes >= least]
    return min(large, key=lambda one: one.nbytes, default=None) if parts else None


def _before_the_next(message: str, begin: int) -> str:
    """Return the message without the next rank's message after it."""
    following = _REQUESTED.search(message, begin + 20)
    return message[: following.start()] if following else message


def _written_size(match: re.Match[str]) -> WrittenSize:
    number, unit = (group for group in match.groups() if group is not None)
    digits = len(number.partition(".")[2])
    exact = unit in ("B", "bytes")
    return WrittenSize(
        text=f"{number} {unit}",
        nbytes=float(number) * _UNITS[unit],
        rounding_bytes=0.0 if exact else 0.5 * 10**-digits * _UNITS[unit],
    )


def _less(all_of_it: WrittenSize, part: WrittenSize) -> WrittenSize:
    nbytes = max(0.0, all_of_it.nbytes - part.nbytes)
    return WrittenSize("", nbytes, all_of_it.rounding_bytes + part.rounding_bytes)
