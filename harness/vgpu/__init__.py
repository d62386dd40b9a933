"""A virtual GPU: runs an unmodified CUDA training script as one rank of many, without a GPU, and counts what the card holds.

    with vgpu.attach(card="H100-80G", rank=0, world_size=32) as gpu:
        runpy.run_path("train.py", run_name="__main__")
    print(gpu.memory, gpu.unsupported)

Needs torch and the standard library; importing the package itself imports neither torch nor any part of it. docs/vgpu.md
has a tutorial, and ``vgpu run --help`` the command.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vgpu.allocator.model import AllocatorSettings
    from vgpu.allocator.snapshots import replay_on_card as replay
    from vgpu.card_catalogue import Card, UnknownCard
    from vgpu.card_catalogue import known_cards as cards
    from vgpu.device.launching import kernel
    from vgpu.no_stand_in import NoStandInError
    from vgpu.sim.errors import SimulationError
    from vgpu.stand_ins.registered import register
    from vgpu.virtual_gpu import Memory, VirtualGpu, attach

__all__ = [
    "AllocatorSettings",
    "Card",
    "Memory",
    "NoStandInError",
    "SimulationError",
    "UnknownCard",
    "VirtualGpu",
    "attach",
    "cards",
    "kernel",
    "register",
    "replay",
]

#: Public name -> (module, its name there). Each is imported when it is first used.
_PUBLIC = {
    "AllocatorSettings": ("vgpu.allocator.model", "AllocatorSettings"),
    "Card": ("vgpu.card_catalogue", "Card"),
    "Memory": ("vgpu.virtual_gpu", "Memory"),
    "NoStandInError": ("vgpu.no_stand_in", "NoStandInError"),
    "SimulationError": ("vgpu.sim.errors", "SimulationError"),
    "UnknownCard": ("vgpu.card_catalogue", "UnknownCard"),
    "VirtualGpu": ("vgpu.virtual_gpu", "VirtualGpu"),
    "attach": ("vgpu.virtual_gpu", "attach"),
    "cards": ("vgpu.card_catalogue", "known_cards"),
    "kernel": ("vgpu.device.launching", "kernel"),
    "register": ("vgpu.stand_ins.registered", "register"),
    "replay": ("vgpu.allocator.snapshots", "replay_on_card"),
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(f"vgpu.{name} needs torch: pip install torch", name="torch") from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
