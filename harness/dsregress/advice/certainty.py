"""Judges how certain it is that a job fits a card, or that it does not. Pure.

A verdict sets one amount aside for what is outside PyTorch's allocator. Jobs were seen to take less and more
(`vgpu.card_room`).
"""

from __future__ import annotations

from dsregress.wording.quantities import quantity
from vgpu.card_room import Certainty, certainty_in_room, outside_range, spare_bytes

#: Set aside on each card: the CUDA context with its kernels (0.39 GiB in hiyouga/LlamaFactory#1936, 470 MiB in
#: 3DTopia/Phidias-Diffusion#8) and NCCL's buffers (0.67 GiB for one communicator over four A100, NVIDIA/nccl#964; 1.06 GB
#: of all that is not PyTorch's on 8 H100 before the first all-to-all, NVIDIA/nccl#1685). It is more than six of the eight
#: jobs in docs/fit.md had outside PyTorch when they ran out of memory.
OVERHEAD_BYTES = 3 << 29


def certainty(needed_bytes: int, headroom_bytes: int, overhead_bytes: int, *, spans_nodes: bool) -> Certainty:
    """Return the certainty of a verdict by what a job needs, and the room that is left with ``overhead_bytes`` set aside."""
    given = (overhead_bytes, overhead_bytes)  # an amount that the reader has set is certain
    outside = outside_range(spans_nodes=spans_nodes) if overhead_bytes == OVERHEAD_BYTES else given
    return certainty_in_room(needed_bytes, headroom_bytes + overhead_bytes, outside)


def certainty_words(found: Certainty, needed_bytes: int) -> str:
    """Return the verdict of a job that needs so much: ``fits with less than 2.10 GiB to spare``."""
    if found is Certainty.BARELY_FITS:
        return f"fits with less than {quantity(spare_bytes(needed_bytes), 'bytes')} to spare"
    return str(found.value)
