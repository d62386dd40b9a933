"""Judges how certain it is that a job fits a card, or that it does not. Pure.

A verdict sets one amount aside for what is outside PyTorch's allocator: the CUDA context, kernels and NCCL's buffers. Jobs
were seen to take less and more (`outside_range`), so near the edge of a card it may be either way; and a job that just fits
with the most of it lacks room for the error of the allocator's model.
"""

from __future__ import annotations

from enum import Enum

from dsregress.wording.quantities import quantity

#: Set aside on each card: the CUDA context with its kernels (0.39 GiB in hiyouga/LlamaFactory#1936, 470 MiB in
#: 3DTopia/Phidias-Diffusion#8) and NCCL's buffers (0.67 GiB for one communicator over four A100, NVIDIA/nccl#964; 1.06 GB
#: of all that is not PyTorch's on 8 H100 before the first all-to-all, NVIDIA/nccl#1685). It is more than six of the eight
#: jobs in docs/fit.md had outside PyTorch when they ran out of memory.
OVERHEAD_BYTES = 3 << 29

#: (least, most) that was seen of the same in training jobs: on one node huggingface/trl#3436 with 8 ranks, and five jobs on
#: one A100-80G (foundation-model-stack/fms-acceleration, ``scripts/benchmarks/refs``: the peak of nvidia-smi less what
#: PyTorch reserves by the allocator's model, 1.65 to 1.68 GiB); at most over several nodes (hiyouga/LlamaFactory#7532, 48
#: ranks). Those of messages are what the process had, less what PyTorch had reserved: docs/fit.md.
OVERHEAD_SEEN_BYTES = (round(0.36 * (1 << 30)), 1716 << 20)
OVERHEAD_SEEN_OVER_NODES_BYTES = round(2.05 * (1 << 30))

#: What a job that surely fits has to spare, as a share of its need: the goal for reserved memory of results/accuracy.md.
SPARE_SHARE = 0.03


class Certainty(Enum):
    """A verdict with its certainty."""

    FITS = "fits"
    BARELY_FITS = "fits with little to spare"
    TOO_CLOSE = "too close to call"
    DOES_NOT_FIT = "does not fit"


def outside_range(overhead_bytes: int, *, spans_nodes: bool) -> tuple[int, int]:
    """Return the least and the most that a job is expected to take outside PyTorch's allocator. An amount that the reader
    has set is certain."""
    if overhead_bytes != OVERHEAD_BYTES:
        return overhead_bytes, overhead_bytes
    least, most = OVERHEAD_SEEN_BYTES
    return least, OVERHEAD_SEEN_OVER_NODES_BYTES if spans_nodes else most


def certainty(needed_bytes: int, headroom_bytes: int, overhead_bytes: int, *, spans_nodes: bool) -> Certainty:
    """Return the certainty of a verdict by what a job needs, and the room that is left with ``overhead_bytes`` set aside."""
    least, most = outside_range(overhead_bytes, spans_nodes=spans_nodes)
    room = headroom_bytes + overhead_bytes
    if room < least:
        return Certainty.DOES_NOT_FIT
    if room < most:
        return Certainty.TOO_CLOSE
    return Certainty.BARELY_FITS if room < most + spare_bytes(needed_bytes) else Certainty.FITS


def spare_bytes(needed_bytes: int) -> int:
    """Return what a job that surely fits has to spare."""
    return round(SPARE_SHARE * needed_bytes)


def certainty_words(found: Certainty, needed_bytes: int) -> str:
    """Return the verdict of a job that needs so much: ``fits with less than 2.10 GiB to spare``."""
    if found is Certainty.BARELY_FITS:
        return f"fits with less than {quantity(spare_bytes(needed_bytes), 'bytes')} to spare"
    return str(found.value)
