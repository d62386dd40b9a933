"""The memory that a card has for a job's tensors, the memory that one rank needs, and whether it fits. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dsregress.advice.certainty import OVERHEAD_BYTES, certainty, certainty_words
from dsregress.advice.gpus import Card
from dsregress.advice.gpus.step_time import GPUS_PER_NODE
from dsregress.compare import ResultSummary
from dsregress.compare.metrics import DEVICE_PEAK, RESERVED_PEAK, SMALLEST_CARD, Metric
from dsregress.probe.border.wire import PHASES, RankRecord
from vgpu.card_room import Certainty
from vgpu.figures import PhaseReading


def taken_bytes(card: Card, parameters: Mapping[str, Any]) -> int:
    """Return the bytes of the card that a generation engine on the same card keeps (``gpu_memory_utilization``, vLLM's name
    for its share of the card). The engine is not simulated; its share is subtracted."""
    return round(float(parameters.get("gpu_memory_utilization") or 0.0) * card.usable_bytes)


def available_bytes(card: Card, parameters: Mapping[str, object], overhead_bytes: int = OVERHEAD_BYTES) -> int:
    """Return the bytes that a card has for the tensors of a job with these parameters."""
    return card.usable_bytes - overhead_bytes - taken_bytes(card, parameters)


class FitVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict whether the tensors of one rank fit a card."""

    peak_bytes: int  #: of the phase that needs most; 0 if none was measured
    headroom_bytes: int  #: negative if it does not fit
    fails_in: str  #: the first phase that needs more than the card has; empty if all fit
    overhead_bytes: int = OVERHEAD_BYTES  #: set aside
    spans_nodes: bool = False  #: the job is on more than one node

    @property
    def certainty(self) -> Certainty:
        """Return the verdict with its certainty."""
        return certainty(self.peak_bytes, self.headroom_bytes, self.overhead_bytes, spans_nodes=self.spans_nodes)

    @property
    def words(self) -> str:
        """Return the verdict in words: ``too close to call``, ``OUT OF MEMORY in backward``."""
        if self.certainty is Certainty.DOES_NOT_FIT:
            return f"OUT OF MEMORY in {self.fails_in}"
        return certainty_words(self.certainty, self.peak_bytes)

    @property
    def fits(self) -> bool:
        """Return True if every phase fits."""
        return not self.fails_in

    @property
    def available_bytes(self) -> int:
        """Return the bytes that the card has for tensors."""
        return self.peak_bytes + self.headroom_bytes


def verdict(
    card: Card,
    parameters: Mapping[str, object],
    allocated: Mapping[str, float],
    needed: Mapping[str, float],
    overhead_bytes: int = OVERHEAD_BYTES,
    gpus_per_node: int = GPUS_PER_NODE,
) -> FitVerdict:
    """Judge whether a rank fits a card, from its peaks by phase, in bytes: ``allocated`` by PyTorch, and ``needed`` of the
    card, which is more if an allocator was modelled. This is the only such judgement.

    Allocated peaks are checked first to name the phase that fails: an allocator still holds in one phase what it reserved
    in the phase before, so after the first step its peaks no longer show which phase needed the memory.
    """
    available = available_bytes(card, parameters, overhead_bytes)
    fails_in = next((phase for peaks in (allocated, needed) for phase in PHASES if peaks.get(phase, 0) > available), "")
    peak = int(max(needed.values(), default=0))
    return FitVerdict(
        peak_bytes=peak,
        headroom_bytes=available - peak,
        fails_in=fails_in,
        overhead_bytes=overhead_bytes,
        spans_nodes=int(parameters.get("world_size", 1)) > gpus_per_node,  # type: ignore[call-overload]
    )


def compared_verdict(cell: ResultSummary, card: Card, overhead_bytes: int = OVERHEAD_BYTES) -> FitVerdict:
    """Return the `verdict` of a simulated cell of a comparison, by its worst rank's peaks."""
    worst = cell.worst()

    def first_of(*metrics: Metric) -> dict[str, float]:
        """Return, by phase, the first of these metrics that was measured."""
        return {p: next(filter(None, (worst.get(m.flat_name(p)) for m in metrics)), 0.0) for p in PHASES}

    needed = first_of(SMALLEST_CARD, RESERVED_PEAK, DEVICE_PEAK)
    return verdict(card, cell.result.cell.parameters, first_of(DEVICE_PEAK), needed, overhead_bytes)


def needed_bytes(phases: Mapping[str, PhaseReading]) -> tuple[dict[str, int], str]:
    """Return the bytes that a card must have, by phase, and how they were counted: ``reserved`` or ``allocated``.

    If an allocator was modelled, this is the smallest card that completes the phase, whatever the timing of streams. That is
    less than the allocator reserves on a larger card, because it returns its cache before it fails.
    """
    cards = {p: reading.smallest_card_bytes for p, reading in phases.items() if reading.smallest_card_bytes is not None}
    if cards:
        return cards, "reserved"
    reserved = {phase: reading.reserved_peak_bytes for phase, reading in phases.items()}
    known = {phase: size for phase, size in reserved.items() if size is not None}
    if phases and len(known) == len(phases):
        return known, "reserved"
    return {phase: reading.device_peak_bytes for phase, reading in phases.items()}, "allocated"


def host_bytes_per_node(measured: Sequence[RankRecord], ranks_per_node: int) -> int | None:
    """Return the host memory of all ranks of the first node, in the phase that needs most; None if nothing was measured.

    Ranks that were not measured are taken to be like the other measured ranks, but not like the first, which saves. If only
    the first was measured, the others hold as much as it does; in ``save``, only as much as it still holds afterwards,
    because a whole model is gathered on the first rank alone.
    """
    first, *others = sorted(measured, key=lambda rank: rank.rank) or [RankRecord(rank=0)]
    totals = []
    for phase, reading in first.phases.items():
        saves = phase == "save" and first.rank == 0
        alone = reading.host_retained_bytes if saves else reading.host_peak_bytes
        rest = max((other.phases[phase].host_peak_bytes for other in others if phase in other.phases), default=alone)
        totals.append(reading.host_peak_bytes + (ranks_per_node - 1) * rest)
    return max(totals, default=None)


def reserved_range(phases: Mapping[str, PhaseReading]) -> tuple[int, int] | None:
    """Return the least and the most that the allocator reserves at its peak, by the timing of streams, on a card without
    limit; None if no allocator was modelled. Such a peak includes the cache: it is not what a job needs."""
    readings = [reading for reading in phases.values() if reading.late_reserved_peak_bytes is not None]
    if not readings:
        return None
    return (
        max(reading.reserved_peak_bytes or 0 for reading in readings),
        max(reading.late_reserved_peak_bytes or 0 for reading in readings),
    )
