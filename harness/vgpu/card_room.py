"""Judges by the room that a job leaves on a card how certain it is that the job fits. Pure.

Beside PyTorch's allocator there are the CUDA context, kernels and NCCL's buffers. Jobs were seen to take less and more of
these, so near the edge of a card it may be either way; and a job that just fits with the most of them lacks room for the
error of the allocator's model.
"""

from __future__ import annotations

from enum import Enum

_GIB = 1 << 30

#: (least, most) that training jobs had outside PyTorch: on one node huggingface/trl#3436 with 8 ranks, and five jobs on
#: one A100-80G (foundation-model-stack/fms-acceleration, ``scripts/benchmarks/refs``: the peak of nvidia-smi less what
#: PyTorch reserves by the allocator's model, 1.65 to 1.68 GiB); at most over several nodes (hiyouga/LlamaFactory#7532, 48
#: ranks). Those of messages are what the process had, less what PyTorch had reserved: docs/fit.md.
OUTSIDE_SEEN_BYTES = (round(0.36 * _GIB), 1716 << 20)
OUTSIDE_SEEN_OVER_NODES_BYTES = round(2.05 * _GIB)

#: What a job that surely fits has to spare, as a share of its need: the goal for reserved memory of results/accuracy.md.
SPARE_SHARE = 0.03


class Certainty(Enum):
    """A verdict with its certainty."""

    FITS = "fits"
    BARELY_FITS = "fits with little to spare"
    TOO_CLOSE = "too close to call"
    DOES_NOT_FIT = "does not fit"


def outside_range(*, spans_nodes: bool) -> tuple[int, int]:
    """Return the least and the most that a job is expected to take outside PyTorch's allocator."""
    least, most = OUTSIDE_SEEN_BYTES
    return least, OUTSIDE_SEEN_OVER_NODES_BYTES if spans_nodes else most


def certainty_in_room(needed_bytes: int, room_bytes: int, outside: tuple[int, int]) -> Certainty:
    """Return the certainty of a verdict by what the allocator needs, the room that it leaves on the card (negative if the
    card is smaller), and the range of what else takes of it."""
    least, most = outside
    if room_bytes < least:
        return Certainty.DOES_NOT_FIT
    if room_bytes < most:
        return Certainty.TOO_CLOSE
    return Certainty.BARELY_FITS if room_bytes < most + spare_bytes(needed_bytes) else Certainty.FITS


def spare_bytes(needed_bytes: int) -> int:
    """Return what a job that surely fits has to spare."""
    return round(SPARE_SHARE * needed_bytes)
