"""How vLLM sends weights from a trainer's card: packed into buffers there, two of which are under way at a time."""

from collections import deque

import torch

_BUFFER_BYTES = 1 << 30
_BUFFERS = 2


def packed_nccl_broadcast_producer(
    iterator, group, src, post_iter_func, buffer_size_bytes=_BUFFER_BYTES, num_buffers=_BUFFERS
):
    under_way = deque()
    items = iter(iterator)
    while True:
        if len(under_way) == num_buffers:
            under_way.popleft()
        packed = _packed(items, post_iter_func, buffer_size_bytes)
        if packed is None:
            return
        group.broadcast(packed, src=src)
        under_way.append(packed)


def _packed(items, post_iter_func, buffer_size_bytes):
    """The next weights as one tensor of bytes, full when it has more than a buffer's; None after the last."""
    parts, size = [], 0
    for item in items:
        parts.append(post_iter_func(item).contiguous().view(torch.uint8).view(-1))
        size += parts[-1].numel()
        if size > buffer_size_bytes:
            break
    return torch.cat(parts) if parts else None
