"""Patches of DeepSpeed for a simulation, found by feature and never by version number."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from vgpu.loaded import loaded_modules
from vgpu.replacing import Patches, attribute
from vgpu.sim.accelerator import meta_accelerator

#: Functions that compare values across ranks and have no other effect: in a healthy job all agree.
_SANITY_CHECKS = ("assert_ints_same_as_other_ranks", "assert_lst_len_same_as_other_ranks")


@contextlib.contextmanager
def adapted(
    pin: Callable[[torch.Tensor], torch.Tensor], empty_cache: Callable[[], None], *, has_streams: bool
) -> Iterator[None]:
    """Put the imported DeepSpeed on the meta accelerator within the block."""
    from deepspeed.accelerator import real_accelerator

    accelerator = meta_accelerator(pin, empty_cache, has_streams=has_streams)
    with attribute(real_accelerator, "ds_accelerator", None), ranks_agree():
        real_accelerator.set_accelerator(accelerator)
        yield


@contextlib.contextmanager
def ranks_agree() -> Iterator[None]:
    """Disable comparisons across ranks within the block: in a process group that computes nothing they would compare
    noise."""
    answers = {**dict.fromkeys(_SANITY_CHECKS, _agreed), "get_lst_from_rank0": list}
    with Patches() as patches:
        for full_name, module, held in loaded_modules():
            if full_name.startswith("deepspeed."):
                for name in answers.keys() & held.keys():
                    patches.set(module, name, answers[name])
        yield


def _agreed(*_: Any, **__: Any) -> None:
    """Do nothing: every rank has the same."""
