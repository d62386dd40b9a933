"""``liger_kernel.chunked_loss``: names that trainers import before they need them. None can be made."""

from __future__ import annotations

import torch

from vgpu.stand_ins.refusing import refusing

_CLASSES = {
    name: refusing(f"liger_kernel.chunked_loss.{name}", torch.nn.Module, "train without use_liger_loss here")
    for name in (f"LigerFusedLinear{loss}Loss" for loss in ("CPO", "DPO", "GRPO", "JSD", "KTO", "ORPO", "SimPO"))
}
globals().update(_CLASSES)

__all__ = [*_CLASSES]
