"""``liger_kernel.chunked_loss``: names that trainers import before they need them. None can be made."""

from __future__ import annotations

from typing import Any

import torch


def _refusing(name: str) -> type[torch.nn.Module]:
    def refuse(self: Any, *_: Any, **__: Any) -> None:
        raise NotImplementedError(
            f"liger_kernel.chunked_loss.{name} has no stand-in: train without use_liger_loss here"
        )

    return type(name, (torch.nn.Module,), {"__init__": refuse})


_CLASSES = {
    name: _refusing(name)
    for name in (f"LigerFusedLinear{loss}Loss" for loss in ("CPO", "DPO", "GRPO", "JSD", "KTO", "ORPO", "SimPO"))
}
globals().update(_CLASSES)

__all__ = [*_CLASSES]
