"""The figures of a card: by phase, and when a program asks. Standard library only. All sizes are bytes, all times
seconds."""

from __future__ import annotations

import dataclasses

#: The key of `PhaseReading.attention` for calls that flash attention takes.
FLASH = "flash"


@dataclasses.dataclass(slots=True)
class PhaseReading:
    """The figures of one rank in one phase of the measured step. A phase that runs several times, as per micro-batch, is
    folded: peaks by maximum, counts by sum, retained as of the last end."""

    device_peak_bytes: int = 0
    device_retained_bytes: int = 0
    host_peak_bytes: int = 0
    host_retained_bytes: int = 0
    reserved_peak_bytes: int | None = (
        None  #: where an allocator (or a model of one, of a GPU that is never late) exists
    )
    late_reserved_peak_bytes: int | None = None  #: at most, whatever the timing of streams; where one is modelled
    #: the smallest card that completes this phase in every step so far, as far as the phase itself requires it (see
    #: `vgpu.allocator.reserving`); None where no allocator is modelled
    smallest_card_bytes: int | None = None
    seconds: float = 0.0  #: of the untracked rounds, median; in ``sim`` what simulating it took; else 0.0
    host_calls: int = 0  #: Python functions, and C functions called from Python
    op_launches: int = 0
    flops: int = 0
    #: that kernels without FLOPs (what is neither a matrix product nor attention) read and write on the device; 0 where an
    #: older probe measured
    moved_bytes: int = 0
    copied_bytes: int = 0  #: between the device and the host
    collectives: dict[str, list[int]] = dataclasses.field(default_factory=dict)  #: kind -> [count, bytes]
    #: the same by group: ``all_gather 0-31``, ``all_reduce 0-24/8`` (every eighth), ``broadcast 0,3,5``; empty where an
    #: older probe measured
    groups: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    #: calls of scaled dot product attention by the kernel that a GPU takes, and why it is not flash attention:
    #: ``flash``, ``efficient: a mask is passed``; of ``sim``, empty where an older probe measured
    attention: dict[str, int] = dataclasses.field(default_factory=dict)

    def folded_with(self, later: PhaseReading) -> PhaseReading:
        """Return this reading and that of a later run of the same phase (micro-batches of one step) as one."""
        reserved = [r for r in (self.reserved_peak_bytes, later.reserved_peak_bytes) if r is not None]
        late = [r for r in (self.late_reserved_peak_bytes, later.late_reserved_peak_bytes) if r is not None]
        cards = [c for c in (self.smallest_card_bytes, later.smallest_card_bytes) if c is not None]
        return PhaseReading(
            device_peak_bytes=max(self.device_peak_bytes, later.device_peak_bytes),
            device_retained_bytes=later.device_retained_bytes,
            host_peak_bytes=max(self.host_peak_bytes, later.host_peak_bytes),
            host_retained_bytes=later.host_retained_bytes,
            reserved_peak_bytes=max(reserved) if reserved else None,
            late_reserved_peak_bytes=max(late) if late else None,
            smallest_card_bytes=max(cards) if cards else None,
            seconds=self.seconds + later.seconds,
            host_calls=self.host_calls + later.host_calls,
            op_launches=self.op_launches + later.op_launches,
            flops=self.flops + later.flops,
            moved_bytes=self.moved_bytes + later.moved_bytes,
            copied_bytes=self.copied_bytes + later.copied_bytes,
            collectives=_added(self.collectives, later.collectives),
            groups=_added(self.groups, later.groups),
            attention={
                kernel: self.attention.get(kernel, 0) + later.attention.get(kernel, 0)
                for kernel in sorted({*self.attention, *later.attention})
            },
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """A program's reading of its card at one point: the figures of ``torch.cuda``, rounded to blocks as the caching
    allocator has them. Peaks are those since the program, or DeepSpeed, last reset them."""

    at: str  #: what ``see_memory_usage`` was given to print, else ``train.py:57 in report``
    step: int  #: optimizer steps before it
    allocated_bytes: int
    allocated_peak_bytes: int
    reserved_bytes: int
    reserved_peak_bytes: int
    late_reserved_bytes: int | None = None  #: at most, whatever the timing of streams; where an allocator is modelled


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PhaseMemory:
    """A card's memory in one phase, rounded to blocks as the caching allocator has them. Of a phase that runs several times
    peaks are the maximum, the rest is as of the last end."""

    allocated_bytes: int  #: ``torch.cuda.memory_allocated`` at its end
    allocated_peak_bytes: int
    reserved_bytes: int  #: ``torch.cuda.memory_reserved`` at its end, if the GPU never falls behind the host
    reserved_peak_bytes: int
    smallest_card_bytes: (
        int  #: the least room that completes it and all before it, as far as the phase itself requires it
    )
    host_bytes: int  #: of tensors in host memory, at its end
    host_peak_bytes: int

    def folded_with(self, later: PhaseMemory) -> PhaseMemory:
        """Return the memory of this run of a phase and of a later one as one."""
        return PhaseMemory(
            allocated_bytes=later.allocated_bytes,
            allocated_peak_bytes=max(self.allocated_peak_bytes, later.allocated_peak_bytes),
            reserved_bytes=later.reserved_bytes,
            reserved_peak_bytes=max(self.reserved_peak_bytes, later.reserved_peak_bytes),
            smallest_card_bytes=max(self.smallest_card_bytes, later.smallest_card_bytes),
            host_bytes=later.host_bytes,
            host_peak_bytes=max(self.host_peak_bytes, later.host_peak_bytes),
        )


def _added(one: dict[str, list[int]], other: dict[str, list[int]]) -> dict[str, list[int]]:
    """Return the counts and sizes of both, by name."""
    both = {name: list(counted) for name, counted in one.items()}
    for name, (count, size) in other.items():
        before = both.setdefault(name, [0, 0])
        both[name] = [before[0] + count, before[1] + size]
    return both
