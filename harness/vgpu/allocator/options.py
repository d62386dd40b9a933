"""The allocator's options as people set them: ``PYTORCH_CUDA_ALLOC_CONF``, from torch 2.9 on also ``PYTORCH_ALLOC_CONF``
(https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-alloc-conf). Standard library
only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from vgpu.allocator.model import AllocatorSettings

_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")

#: Between options, and not within the brackets of one: ``roundup_power2_divisions:[256:1,512:2],expandable_segments:True``.
_SEPARATOR = re.compile(r",(?![^\[]*\])")


def read_options(environment: Mapping[str, str]) -> tuple[AllocatorSettings, list[str]]:
    """Return the settings in a process's environment, and the options in it that are not modelled, as they are written."""
    text = next((environment[name] for name in _VARIABLES if environment.get(name)), "")
    expandable, max_split_size_bytes, unknown = False, None, []
    for part in filter(None, (part.strip() for part in _SEPARATOR.split(text))):
        name, _, value = (word.strip() for word in part.partition(":"))
        if name == "expandable_segments":
            expandable = value == "True"
        elif name == "max_split_size_mb" and value.isdecimal():
            max_split_size_bytes = int(value) << 20
        else:
            unknown.append(part)
    return AllocatorSettings(expandable_segments=expandable, max_split_size_bytes=max_split_size_bytes), unknown


def spelled_options(settings: AllocatorSettings) -> str:
    """Return the settings as ``PYTORCH_CUDA_ALLOC_CONF`` spells them; "" for the defaults."""
    options = []
    if settings.expandable_segments:
        options.append("expandable_segments:True")
    if settings.max_split_size_bytes:
        options.append(f"max_split_size_mb:{settings.max_split_size_bytes >> 20}")
    return ",".join(options)
