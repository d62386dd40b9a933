"""A canary: tries in a moment whether what is in place of a release's functions fits the release."""

from __future__ import annotations

import inspect
import io
from typing import Any

import torch
import torch.distributed as dist

from vgpu.fault import BrokenPart
from vgpu.replacing import IN_PLACE

_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Misfit(BrokenPart):
    """Something in place of a release's function refuses what that function cannot be called without."""


def assert_fits() -> None:
    """Raise Misfit if what is in place now cannot be called as the originals must be."""
    for (owner, name), (original, replacement) in sorted(IN_PLACE.items(), key=lambda one: one[0]):
        if reason := _refusal(original, replacement):
            raise Misfit(f"what replaces {owner}.{name} does not fit this release: {reason}")


def _refusal(original: object, replacement: object) -> str:
    """Return why a replacement cannot be called with what its original requires; empty if it can, or if neither is known."""
    if not callable(original) or not callable(replacement):
        return ""
    try:
        of_original = inspect.signature(original).parameters.values()
        accepted = inspect.signature(replacement, follow_wrapped=False)
    except (TypeError, ValueError):  # of C
        return ""
    required = [one for one in of_original if one.default is one.empty and one.kind not in _ANY_NUMBER]
    by_name = {one.name: None for one in required if one.kind is one.KEYWORD_ONLY}
    try:
        accepted.bind_partial(*[None] * (len(required) - len(by_name)), **by_name)
    except TypeError as error:
        return str(error)
    return ""


def train_a_little(device: str) -> None:
    """Train a small model as a rank: in the group that there is, else alone, with NCCL on ``cuda`` and else with gloo."""
    alone = not dist.is_initialized()
    if alone:
        backend = "nccl" if device == "cuda" else "gloo"
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    model: Any = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    heads = torch.ones(1, 2, 8, 8, device=device)
    with torch.autocast("cuda" if device == "cuda" else "cpu", dtype=torch.bfloat16):
        mixed = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
        loss = model(mixed).sum()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    _communicate(torch.ones(8, device=device))
    if device == "cuda":
        _ask_the_card()
        _save(model)
    if alone:
        dist.destroy_process_group()


def _communicate(tensor: torch.Tensor) -> None:
    dist.broadcast(tensor, src=0)
    dist.all_gather_into_tensor(torch.empty_like(tensor), tensor)
    dist.reduce_scatter_tensor(torch.empty_like(tensor), tensor)
    dist.all_gather_object([None] * dist.get_world_size(), "an object")
    dist.new_group([0])
    dist.barrier()


def _ask_the_card() -> None:
    event, stream = torch.cuda.Event(enable_timing=True), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        event.record()
    stream.wait_event(event)
    torch.cuda.synchronize()
    torch.cuda.get_device_properties(torch.cuda.current_device())
    torch.cuda.memory_allocated()
    torch.cuda.mem_get_info()
    torch.cuda.memory_stats()
    torch.cuda.empty_cache()


def _save(model: torch.nn.Module) -> None:
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(torch.load(file, map_location="cuda"))
